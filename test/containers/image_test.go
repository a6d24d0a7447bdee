package containers

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go/exec"
	"github.com/twmb/franz-go/pkg/kgo"
)

// One broker serves all of them: it takes longer to start than they take.
func TestImage(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]func(t *testing.T, w *world){
		"killed container is started again and nothing is lost": killedAndStartedAgain,
		"it has no rights, writes nothing and says how it is":   withoutRights,
		"a time of day is in the zone of the container":         timeOfDay,
		"without a file it says what is missing, and ends":      withoutFile,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, w.in(t, "t"+strconv.Itoa(len(name))))
		})
	}
}

func killedAndStartedAgain(t *testing.T, w *world) {
	c := w.start()

	const n = 300
	sent := map[string]bool{}
	var records []*kgo.Record
	for i := range n {
		value := fmt.Sprintf("order %d", i)
		sent[value] = true
		records = append(records, w.later(int32(i%2), time.Duration(i)*50*time.Millisecond, value))
	}
	require.NoError(t, w.client.ProduceSync(t.Context(), records...).FirstErr())
	before := w.read("target", 30*time.Second, func(all []*kgo.Record) bool { return len(all) >= n/4 })
	w.kill(c)
	require.Equal(t, 137, w.inspect(c).State.ExitCode)
	require.Less(t, len(before), n, "it was killed with records pending")
	require.NoError(t, c.Start(t.Context()))

	copies := map[string]map[string]int{} // by value and delay-id
	all := w.read("target", time.Minute, func(all []*kgo.Record) bool {
		seen := map[string]bool{}
		for _, r := range all {
			seen[string(r.Value)] = true
		}
		return len(seen) >= n
	})
	for _, r := range all {
		value := string(r.Value)
		require.True(t, sent[value], "nobody sent %q", value)
		due, err := strconv.ParseInt(header(t, r, "delay-due"), 10, 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Timestamp.UnixMilli(), due, "early")
		if copies[value] == nil {
			copies[value] = map[string]int{}
		}
		copies[value][header(t, r, "delay-id")]++
	}
	for value, ids := range copies {
		require.Len(t, ids, 1, "copies of %q have several ids", value)
	}
	t.Logf("%d records, %d of them twice", n, len(all)-n)

	require.NoError(t, c.Stop(t.Context(), nil))
	require.Zero(t, w.inspect(c).State.ExitCode, "a stop is a drain, not a failure")
}

func withoutRights(t *testing.T, w *world) {
	c := w.start()

	i := w.inspect(c)
	require.Equal(t, "65532:65532", i.Config.User)
	require.True(t, i.HostConfig.ReadonlyRootfs)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", i.State.Pid))
	require.NoError(t, err)
	for field, want := range map[string]string{
		"Uid": "65532", "Gid": "65532", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1",
	} {
		m := regexp.MustCompile(`(?m)^` + field + `:\s+(\S+)`).FindSubmatch(status)
		require.NotNil(t, m, field)
		require.Equal(t, want, string(m[1]), field)
	}

	code, out, err := c.Exec(t.Context(), []string{"scheduler", "health"}, exec.Multiplexed())
	require.NoError(t, err)
	text, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Zero(t, code, "%s", text)
	require.Equal(t, "ready", string(bytes.TrimSpace(text)))
	code, _, err = c.Exec(t.Context(), []string{"scheduler", "health", "--url", "http://127.0.0.1:1"})
	require.NoError(t, err)
	require.Equal(t, 1, code, "a health check that cannot fail is none")

	changed, err := w.docker.ContainerDiff(t.Context(), c.GetContainerID(), client.ContainerDiffOptions{})
	require.NoError(t, err)
	for _, change := range changed.Changes {
		require.Contains(t, []string{"/etc", "/etc/delay-scheduler", "/etc/delay-scheduler/scheduler.yaml"}, change.Path, "only the mount point is new")
	}
}

// The zone is in no file of the image. Were it unknown, the time would be taken as UTC,
// which is nine hours away.
func timeOfDay(t *testing.T, w *world) {
	w.start()
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	require.NoError(t, err)
	at := time.Now().In(tokyo).Add(5 * time.Second).Format("15:04:05")
	code, out := w.run(map[string]string{"TZ": "Asia/Tokyo"},
		"send", "--brokers", inside, "--topic", w.topic("delay"), "--target", w.topic("target"), "--at", at, "--wait", "--timeout", "20s", "hello")
	require.Zero(t, code, out)
}

func withoutFile(t *testing.T, w *world) {
	code, out := w.run(nil)
	require.Equal(t, 2, code)
	require.Contains(t, out, "/etc/delay-scheduler/scheduler.yaml")
}
