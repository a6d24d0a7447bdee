package security

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"delay-scheduler/internal/testkafka"
)

// page is what somebody follows who has a secured cluster and nothing else.
const page = "../../docs/operations.md"

// block is one of the page's, with its language.
var block = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// follower does what the page says, in a directory of its own.
type follower struct {
	t        *testing.T
	dir, env string
	http     string
}

// followsThePage runs every command of the section about secured clusters as it is
// printed, Kafka's own tool for access lists included. Only the address of the broker, the
// number of replicas and a password are the test's.
func followsThePage(t *testing.T, b *testkafka.Cluster) {
	for _, a := range []testkafka.Access{{Topic: "*"}, {Group: "*"}, {Cluster: true}} {
		a.User, a.Operation = "admin", kadm.OpAll
		b.Grant(a)
	}
	f := newFollower(t, b)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## A secured cluster\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	kinds := map[string]int{}
	for _, m := range block.FindAllStringSubmatch(section, -1) {
		kinds[m[1]]++
		switch m[1] {
		case "yaml":
			f.write("scheduler.yaml", strings.ReplaceAll(m[2], "kafka-1:9093", b.ListenerAddrs(logins)[0]))
		case "properties":
			f.write("admin.properties", strings.ReplaceAll(m[2], `password="..."`, `password="`+changed+`"`))
		case "":
			f.do(strings.ReplaceAll(m[2], "--replication 3", "--replication 1"))
		}
	}
	require.Equal(t, map[string]int{"yaml": 1, "properties": 1, "": 6}, kinds, "the section's blocks")
}

func newFollower(t *testing.T, b *testkafka.Cluster) *follower {
	t.Helper()
	f := &follower{t: t, dir: t.TempDir()}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "scheduler"), "delay-scheduler/cmd/scheduler")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	b.AccessTool(bin)
	f.env = "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")
	f.write("ca.pem", string(b.Authority().PEM()))
	f.write("scheduler.password", password)
	f.write("admin.password", changed)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f.http = l.Addr().String()
	require.NoError(t, l.Close())
	return f
}

func (f *follower) write(name, text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600))
}

// do runs a block as a shell would; what runs until it is stopped, in the background.
func (f *follower) do(commands string) {
	f.t.Helper()
	if strings.HasPrefix(commands, "scheduler run ") {
		f.start(commands)
		return
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), 3*patience)
	defer cancel()
	out, err := f.shell(ctx, commands).CombinedOutput()
	require.NoError(f.t, err, "%s\n%s", commands, out)
	require.NotContains(f.t, string(out), "Geheim-")
}

func (f *follower) shell(ctx context.Context, commands string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-e", "-c", commands)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), f.env, "SCHEDULER_HTTP_LISTEN="+f.http)
	return cmd
}

func (f *follower) start(command string) {
	f.t.Helper()
	cmd := f.shell(context.Background(), "exec "+command)
	require.NoError(f.t, cmd.Start())
	f.t.Cleanup(func() {
		require.NoError(f.t, cmd.Process.Signal(os.Interrupt))
		require.NoError(f.t, cmd.Wait())
	})
	require.Eventually(f.t, func() bool { return f.shell(f.t.Context(), "scheduler health").Run() == nil }, patience, 200*time.Millisecond, "not ready")
}
