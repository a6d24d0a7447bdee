package deploy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// root is the repository's.
const root = "../.."

// program is the built scheduler.
var program string

// exposed are the families that a running scheduler shows under /metrics, by name.
var exposed map[string]*dto.MetricFamily

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "delay-scheduler-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "scheduler")
	build := exec.Command("go", "build", "-o", program, "./cmd/scheduler")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the scheduler: %v\n%s", err, out)
		return 1
	}
	if exposed, err = scrape(dir); err != nil {
		fmt.Fprintln(os.Stderr, "read the metrics of a running scheduler:", err)
		return 1
	}
	return m.Run()
}

// scrape runs the embedded broker and, as the scheduler in it is spared the check of the
// cluster, another scheduler beside it; it reads the metrics of that one when it has
// partitions, was checked, and has something pending.
func scrape(dir string) (families map[string]*dto.MetricFamily, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	broker, end, err := start(ctx, nil, `^ *broker +(\S+)`, "dev", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer end()
	send := exec.CommandContext(ctx, program, "send", "--brokers", broker, "--topic", "orders-delay", "--target", "orders", "--delay", "1h", "later")
	if out, err := send.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("send a record: %w: %s", err, out)
	}
	env := []string{"SCHEDULER_KAFKA_BROKERS=" + broker, "SCHEDULER_GROUP_ID=scraped", "SCHEDULER_HTTP_LISTEN=127.0.0.1:0"}
	address, stop, err := start(ctx, env, `"http":"([^"]+)"`, "run")
	if err != nil {
		return nil, err
	}
	defer stop()
	return await(ctx, "http://"+address+"/metrics")
}

// start runs the program until it prints a line that matches, and gives the group of it.
func start(ctx context.Context, env []string, line string, args ...string) (found string, stop func(), err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = in.Close()
	}
	wanted := regexp.MustCompile(line)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := wanted.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }() // What it prints until its end has to go somewhere.
			return m[1], stop, nil
		}
	}
	stop()
	return "", nil, fmt.Errorf("scheduler %s did not print %s: %w", strings.Join(args, " "), line, lines.Err())
}

// whole are the metrics that are there last.
var whole = []string{"delay_scheduler_watermark_offset", "delay_scheduler_preflight_findings", "delay_scheduler_retention_margin_seconds"}

func await(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		families, err := read(ctx, url)
		missing := slices.DeleteFunc(slices.Clone(whole), func(name string) bool { return families[name] != nil })
		if err == nil && len(missing) == 0 {
			return families, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("no %v in %s after a minute: %w", missing, url, err)
		}
	}
}

func read(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(resp.Body)
}

// labelsOf are the label names of a family.
func labelsOf(f *dto.MetricFamily) map[string]bool {
	names := map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			names[l.GetName()] = true
		}
	}
	return names
}

// valuesOf are the values that a label has among a family's series.
func valuesOf(f *dto.MetricFamily, label string) map[string]bool {
	values := map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				values[l.GetValue()] = true
			}
		}
	}
	return values
}

func file(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(b)
}

// scheduler runs the program with an environment and returns what it printed.
func scheduler(t *testing.T, env []string, args ...string) string {
	t.Helper()
	out, problems := said(t, env, args...)
	require.Empty(t, problems, "warnings of scheduler %s", strings.Join(args, " "))
	return out
}

// said runs the program and returns what it printed, and what it warned of.
func said(t *testing.T, env []string, args ...string) (printed, warned string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	require.NoError(t, cmd.Run(), "scheduler %s: %s", strings.Join(args, " "), &problems)
	return out.String(), problems.String()
}
