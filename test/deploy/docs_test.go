package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const operations = "docs/operations.md"

// row is one line of a table whose first cell is code.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(.*)\\|$")

// table gives the rows of the tables below a heading, as cells by their first one.
func table(t *testing.T, heading string) map[string][]string {
	t.Helper()
	_, text, found := strings.Cut(file(t, operations), "\n## "+heading+"\n")
	require.True(t, found, "no heading %q", heading)
	text, _, _ = strings.Cut(text, "\n## ")
	rows := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		require.NotContains(t, rows, m[1], "twice in %q", heading)
		var cells []string
		for cell := range strings.SplitSeq(m[2], " | ") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows[m[1]] = cells
	}
	return rows
}

func TestOperationsListsTheMetricsThatExist(t *testing.T) {
	documented := table(t, "Metrics")
	for name, f := range exposed {
		if !strings.HasPrefix(name, "delay_scheduler_") {
			continue
		}
		cells := documented[name]
		require.Len(t, cells, 3, "%s is not in the table of metrics, with type, labels and meaning", name)
		require.Equal(t, strings.ToLower(f.GetType().String()), cells[0], name)
		want := labelsOf(f)
		for label := range strings.SplitSeq(cells[1], ", ") {
			if label != "" {
				require.True(t, want[strings.Trim(label, "`")], "%s has no label %s", name, label)
				delete(want, strings.Trim(label, "`"))
			}
		}
		require.Empty(t, want, "labels of %s", name)
		require.NotEmpty(t, cells[2], name)
	}
	for name := range documented {
		require.NotNil(t, exposed[name], "%s is documented and does not exist", name)
	}
}

func TestOperationsListsTheReasonsThatExist(t *testing.T) {
	documented := table(t, "Degraded reasons")
	reasons := valuesOf(exposed["delay_scheduler_degraded"], "reason")
	require.NotEmpty(t, reasons)
	for reason := range reasons {
		require.Len(t, documented[reason], 2, "reason %s needs what it means and what to do", reason)
	}
	for reason := range documented {
		require.True(t, reasons[reason], "%s is documented and does not exist", reason)
	}
}

func TestEveryAlertHasItsRunbook(t *testing.T) {
	there := anchors(file(t, operations))
	for _, r := range alerts(t) {
		require.Equal(t, operations+"#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
		require.True(t, there[strings.ToLower(r.Alert)], "%s has no section in %s", r.Alert, operations)
	}
	names := map[string]bool{}
	for _, r := range alerts(t) {
		names[strings.ToLower(r.Alert)] = true
	}
	for anchor := range there {
		if strings.HasPrefix(anchor, "delayscheduler") {
			require.True(t, names[anchor], "%s is no alert", anchor)
		}
	}
}

var (
	headings = regexp.MustCompile(`(?m)^#+ (.+)$`)
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	dropped  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	fences   = regexp.MustCompile("(?s)```.*?```")
)

// anchors are the names that headings have on a page, as GitHub makes them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range headings.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	pages := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "deploy/kubernetes/README.md"}
	more, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	for _, path := range more {
		pages = append(pages, filepath.Join("docs", filepath.Base(path)))
	}
	for _, page := range pages {
		for _, m := range links.FindAllStringSubmatch(fences.ReplaceAllString(file(t, page), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			_, err := os.Stat(filepath.Join(root, target))
			require.NoError(t, err, "%s links to %s", page, m[1])
			if anchor != "" {
				require.True(t, anchors(file(t, target))[anchor], "%s links to %s", page, m[1])
			}
		}
	}
}

// inline is code in a text, and shell is a block of it.
var shell = regexp.MustCompile("(?m)^(?:    )?(?:bin/)?scheduler ((?:[a-z]+ ?)+)")

// A command that a page prints and the program does not have is worse than none.
func TestCommandsInOperationsExist(t *testing.T) {
	var named []string
	for _, m := range shell.FindAllStringSubmatch(file(t, operations), -1) {
		named = append(named, strings.TrimSpace(m[1]))
	}
	require.NotEmpty(t, named)
	for _, words := range named {
		out := scheduler(t, nil, append(strings.Fields(words), "--help")...)
		require.Contains(t, out, "scheduler "+strings.Fields(words)[0], "scheduler %s", words)
	}
}

func TestDashboardIsWholeJSON(t *testing.T) {
	require.True(t, json.Valid([]byte(file(t, "deploy/grafana/dashboard.json"))))
}
