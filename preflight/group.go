package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// protocolType is what consumers call their group protocol.
const protocolType = "consumer"

func (j *judge) group() {
	g, name := j.Group, j.Settings.Group
	switch {
	case g.Err != "":
		j.add(IDGroup, Unknown, name, "the group cannot be described: "+g.Err, "grant READ on the group")
		return
	case g.Next:
		j.add(IDGroup, Fail, name, "it is a group of the new consumer protocol (KIP-848), which the scheduler does not speak", "choose another group.id, or stop its members and delete the group")
		return
	case g.Type != "" && g.Type != protocolType:
		j.add(IDGroup, Fail, name, fmt.Sprintf("it is used by something else than consumers (protocol type %q)", g.Type), "choose another group.id")
		return
	case g.State == "" || g.State == "Dead":
		j.add(IDGroup, Pass, name, "there is no such group yet: it begins with the first start", "")
	default:
		j.add(IDGroup, Pass, name, fmt.Sprintf("state %s, %d members", g.State, len(g.Members)), "")
	}
	j.members()
	j.instance()
}

func (j *judge) members() {
	var strange []string
	for _, m := range j.Group.Members {
		if !strings.HasPrefix(m.ClientID, j.Settings.ClientID+"-") {
			strange = append(strange, fmt.Sprintf("%q at %s", m.ClientID, m.Host))
		}
	}
	switch {
	case len(strange) > 0:
		j.add(IDMembers, Warn, j.Settings.Group, fmt.Sprintf("%d of its members do not look like this configuration's (kafka.client_id %s): %s", len(strange), j.Settings.ClientID, some(strange)),
			"give the scheduler a group of its own: what another consumer gets assigned is not scheduled")
	case len(j.Group.Members) > 0:
		j.add(IDMembers, Pass, j.Settings.Group, "all members look like this configuration's", "")
	}
}

// instance looks for a member that has our static identity. A process that has joined
// would find itself.
func (j *judge) instance() {
	id := j.Settings.InstanceID
	if id == "" || j.Settings.Joined {
		return
	}
	for _, m := range j.Group.Members {
		if m.InstanceID == id {
			j.add(IDInstance, Warn, id, fmt.Sprintf("group.instance_id is in use by a member at %s: another process with it would throw that one out", m.Host),
				"start no second process with it; each needs an id of its own")
			return
		}
	}
	j.add(IDInstance, Pass, id, "group.instance_id is free", "")
}

func (j *judge) commits() {
	for _, s := range j.Sources {
		if len(s.Foreign) == 0 {
			continue
		}
		first := slices.Min(slices.Collect(maps.Keys(s.Foreign)))
		j.add(IDCommits, Warn, fmt.Sprintf("%s/%d", s.Name, first), fmt.Sprintf("the commits of %d partitions are not the scheduler's: %s", len(s.Foreign), s.Foreign[first]),
			"see what they mean (scheduler offsets show), and give the scheduler a group of its own")
	}
}
