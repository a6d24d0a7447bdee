package testkafka

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// serverProperties is the server.properties of one node.
func serverProperties(s settings, n *node, all []*node) string {
	properties := baseProperties(len(all))
	maps.Copy(properties, addressProperties(n, all))
	if len(all) > 1 {
		maps.Copy(properties, failoverProperties())
	}
	maps.Copy(properties, s.properties)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&b, "%s=%s\n", key, properties[key])
	}
	return b.String()
}

func addressProperties(n *node, all []*node) map[string]string {
	var voters []string
	for _, voter := range all {
		voters = append(voters, fmt.Sprintf("%d@%s", voter.id, voter.controller))
	}
	var others strings.Builder
	for _, name := range slices.Sorted(maps.Keys(n.others)) {
		others.WriteString("," + name + "://" + n.others[name])
	}
	listeners := fmt.Sprintf("CLIENT://%s,INTERNAL://%s,CONTROLLER://%s%s", n.client, n.internal, n.controller, others.String())
	advertised := fmt.Sprintf("CLIENT://%s,INTERNAL://%s%s", n.addr(), n.internal, others.String())
	return map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(int(n.id)),
		"controller.quorum.voters":       strings.Join(voters, ","),
		"listeners":                      listeners,
		"advertised.listeners":           advertised,
		"listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name":     "INTERNAL",
		"controller.listener.names":      "CONTROLLER",
		"log.dirs":                       n.dataDir(),
	}
}

// baseProperties are for tests: nothing is created behind their backs, nothing waits,
// and what a broker does every few minutes it does every second.
func baseProperties(brokers int) map[string]string {
	replicas := strconv.Itoa(brokers)
	return map[string]string{
		"auto.create.topics.enable":                "false",
		"default.replication.factor":               replicas,
		"offsets.topic.replication.factor":         replicas,
		"offsets.topic.num.partitions":             strconv.Itoa(offsetsPartitions),
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.num.partitions":     "4",
		"transaction.state.log.min.isr":            "1",
		"group.initial.rebalance.delay.ms":         "0",
		"group.min.session.timeout.ms":             "100",
		"log.initial.task.delay.ms":                "500",
		"log.retention.check.interval.ms":          "1000",
		"log.segment.delete.delay.ms":              "1000",
		// The default of 128 MB is allocated at the start, whatever there is to clean.
		"log.cleaner.dedupe.buffer.size": "4194304",
		"num.io.threads":                 "4",
		"num.network.threads":            "2",
	}
}

// failoverProperties let another node take over in seconds instead of the defaults'
// ten or more, with air for a busy machine.
func failoverProperties() map[string]string {
	return map[string]string{
		"broker.heartbeat.interval.ms":          "500",
		"broker.session.timeout.ms":             "4000",
		"controller.quorum.election.timeout.ms": "600",
		"controller.quorum.fetch.timeout.ms":    "2000",
		"replica.lag.time.max.ms":               "4000",
	}
}

// offsetsPartitions of __consumer_offsets: enough to spread groups over three nodes.
const offsetsPartitions = 4
