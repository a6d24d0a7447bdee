package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func example() *report {
	r := &report{
		Machine: machine{
			Date: "2026-01-02 03:04:05 UTC", Commit: "0123456789ab", Cores: 2, CPU: "A CPU", Memory: "24 GiB",
			Load: "0.10", Go: "go1.26.0", Kafka: "4.4.0", CopyRate: 500_000, Probed: true, IdleP50: 1, IdleP99: 2,
		},
		Command: "go run ./bench -n 1000", Records: 1000,
	}
	r.judge(goal{must: 0.5, aim: 0.9, atLeast: true}, figure{
		Name: "burst", Value: 0.75, Text: "0.75 (300/s against 400/s)",
		Note: "What it is.", Runs: []float64{300, 310.4, 290}, Beside: []float64{1.234, 400, 390},
	})
	r.add(figure{Name: "first append", Value: 3, Unit: "ms", Text: "3 ms", Note: "When it came."})
	return r
}

func TestTableSaysWhatHeld(t *testing.T) {
	r := example()
	r.exactly("early", 2, "Before their time.")
	var b bytes.Buffer

	require.NoError(t, r.table(&b))

	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Equal(t, "1000 records, Kafka 4.4.0, 2 cores (A CPU), 24 GiB, load before 0.10, go1.26.0, commit 0123456789ab", lines[0])
	require.Equal(t, []string{
		"figure        value                       must    aim",
		"burst         0.75 (300/s against 400/s)  >= 0.5  >= 0.9  held",
		"early         2                           0               MISSED",
		"first append  3 ms",
		"",
		"A plain copy does 500000/s, the idle probe p50 1, p99 2 ms. All figures bind.",
	}, trimmed(lines[2:]))
}

func trimmed(lines []string) []string {
	var out []string
	for _, l := range lines {
		out = append(out, strings.TrimRight(l, " "))
	}
	return out
}

func TestMissedMustIsNoticed(t *testing.T) {
	r := example()
	require.False(t, r.missed())
	r.exactly("early", 0, "")
	require.False(t, r.missed())
	r.exactly("early", 1, "")
	require.True(t, r.missed())
}

func TestMarkdownHasMachineCommandFiguresAndALineOnEach(t *testing.T) {
	text := example().markdown()

	for _, want := range []string{
		"| machine | 2 cores, A CPU, 24 GiB; load average before the run 0.10 |",
		"| software | Apache Kafka 4.4.0 (one node), go1.26.0 |",
		"| commit | 0123456789ab |",
		"| date | 2026-01-02 03:04:05 UTC |",
		"| command | `go run ./bench -n 1000` |",
		"| burst | 0.75 (300/s against 400/s) | >= 0.5 | >= 0.9 | held |",
		"| first append | 3 ms |  |  |  |",
		"- **burst.** What it is. Runs: 300, 310, 290; beside them: 1.23, 400, 390.",
		"- **first append.** When it came.\n",
		"All figures bind.",
		notes,
	} {
		require.Contains(t, text, want)
	}
}

func TestJSONHasTheValuesBehindTheTexts(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, example().json(&b))

	var back report
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Equal(t, example(), &back)
	require.Contains(t, b.String(), `">= 0.5"`)
	require.NotContains(t, b.String(), `"held": null`, "a figure without a must has no verdict")
}

func TestReportIsWrittenOnlyWhenAllWasMeasured(t *testing.T) {
	o := options{write: filepath.Join(t.TempDir(), "benchmarks.md")}

	require.NoError(t, output(example(), o, io.Discard, false))
	require.NoFileExists(t, o.write)

	for _, partial := range []options{{write: o.write, quick: true}, {write: o.write, only: []string{"burst"}}} {
		require.NoError(t, output(example(), partial, io.Discard, true))
		require.NoFileExists(t, o.write, "%+v", partial)
	}

	require.NoError(t, output(example(), o, io.Discard, true))
	text, err := os.ReadFile(o.write)
	require.NoError(t, err)
	require.Equal(t, example().markdown(), string(text))
}

func TestMachineIsDescribedAsFarAsItIsKnown(t *testing.T) {
	require.Equal(t, "A CPU @ 2.00GHz", cpuModel("processor\t: 0\nmodel name\t: A CPU @ 2.00GHz\nmodel name\t: B\n"))
	require.Equal(t, "unknown CPU", cpuModel("processor\t: 0\n"))
	m := describeMachine(t.Context())
	require.NotEmpty(t, m.Go)
	require.NotEmpty(t, m.Commit)
	require.Positive(t, m.Cores)
}
