package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// targetLabels are what a scrape adds to every series.
var targetLabels = []string{"job", "instance", "namespace", "pod"}

// rule is an alert.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []rule {
	t.Helper()
	var rules struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(file(t, "deploy/prometheus/alerts.yaml")), &rules))
	require.Len(t, rules.Groups, 1)
	require.NotEmpty(t, rules.Groups[0].Rules)
	return rules.Groups[0].Rules
}

// panel is as much of a panel as is looked at.
type panel struct {
	ID          int
	Title, Type string
	Description string
	Targets     []struct{ Expr, LegendFormat string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct{ Panels []panel }
	require.NoError(t, json.Unmarshal([]byte(file(t, "deploy/grafana/dashboard.json")), &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	return dashboard.Panels
}

// family finds what a series' name belongs to. A histogram's series have three names, one
// of them with the label le.
func family(name string) (f *dto.MetricFamily, le bool) {
	if f := exposed[name]; f != nil {
		return f, false
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		base, found := strings.CutSuffix(name, suffix)
		if f := exposed[base]; found && f.GetType() == dto.MetricType_HISTOGRAM {
			return f, suffix == "_bucket"
		}
	}
	return nil, false
}

// check says what is wrong with an expression: a metric, a label, or a label's value that
// the program does not have. It returns the labels that its series may have.
func check(expr string) (known map[string]bool, problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil, []string{err.Error()}
	}
	known = map[string]bool{}
	for _, l := range targetLabels {
		known[l] = true
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		v, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		f, le := family(v.Name)
		if f == nil {
			complain("metric %s does not exist", v.Name)
			return nil
		}
		own := labelsOf(f)
		if le {
			own["le"] = true
		}
		maps.Copy(known, own)
		for _, m := range v.LabelMatchers {
			problems = append(problems, wrong(v.Name, f, own, m)...)
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		var names []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = n.VectorMatching.MatchingLabels
			}
		}
		for _, l := range names {
			if !known[l] {
				complain("label %s does not exist", l)
			}
		}
		return nil
	})
	return known, problems
}

// wrong says what is wrong with one matcher. Values are checked where the program has a
// fixed list of them.
func wrong(name string, f *dto.MetricFamily, own map[string]bool, m *labels.Matcher) (problems []string) {
	if m.Name == model.MetricNameLabel || slices.Contains(targetLabels, m.Name) {
		return nil
	}
	if !own[m.Name] {
		return []string{fmt.Sprintf("%s has no label %s", name, m.Name)}
	}
	if slices.Contains([]string{"topic", "partition", "le"}, m.Name) {
		return nil
	}
	values := valuesOf(f, m.Name)
	for v := range strings.SplitSeq(m.Value, "|") {
		if !values[v] {
			problems = append(problems, fmt.Sprintf("%s has no %s %q", name, m.Name, v))
		}
	}
	return problems
}

// This is what keeps the tests below from passing whatever is written.
func TestExpressionsWithAnUnknownNameAreFound(t *testing.T) {
	for expr, problem := range map[string]string{
		`rate(delay_scheduler_no_such_total[5m])`:                             "metric delay_scheduler_no_such_total does not exist",
		`delay_scheduler_ready{topic="a"}`:                                    "delay_scheduler_ready has no label topic",
		`sum by (target) (delay_scheduler_pending_records)`:                   "label target does not exist",
		`delay_scheduler_degraded{reason="gloom"}`:                            `delay_scheduler_degraded has no reason "gloom"`,
		`delay_scheduler_pending_records_bucket`:                              "metric delay_scheduler_pending_records_bucket does not exist",
		`delay_scheduler_ready and on (target) delay_scheduler_pending_bytes`: "label target does not exist",
	} {
		_, problems := check(expr)
		require.Equal(t, []string{problem}, problems, expr)
	}
	_, problems := check(`histogram_quantile(0.5, sum by (job, le) (rate(delay_scheduler_lateness_seconds_bucket[5m])))`)
	require.Empty(t, problems)
}

func TestAlertsUseOnlyMetricsThatExist(t *testing.T) {
	template := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, r := range alerts(t) {
		known, problems := check(r.Expr)
		require.Empty(t, problems, "%s: %s", r.Alert, r.Expr)
		for key, text := range r.Annotations {
			for _, m := range template.FindAllStringSubmatch(text, -1) {
				require.True(t, known[m[1]], "%s, %s: label %s does not exist", r.Alert, key, m[1])
			}
		}
		require.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
	}
}

func TestDashboardUsesOnlyMetricsThatExist(t *testing.T) {
	legend := regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	ids := map[int]bool{}
	for _, p := range panels(t) {
		require.False(t, ids[p.ID], "panel id %d is there twice", p.ID)
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			known, problems := check(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
			require.Empty(t, problems, "%s: %s", p.Title, target.Expr)
			for _, m := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				require.True(t, known[m[1]], "%s: label %s does not exist", p.Title, m[1])
			}
		}
	}
}

func TestEveryMetricThatATextNamesExists(t *testing.T) {
	name := regexp.MustCompile(`delay_scheduler_[a-z_]+[a-z]`)
	derived := []string{"delay_scheduler_budget_index_percent"} // what hpa.yaml has an adapter make
	for _, path := range []string{
		"README.md", "docs/operations.md", "docs/faq.md", "deploy/kubernetes/hpa.yaml", "deploy/grafana/dashboard.json", "deploy/prometheus/alerts_test.yaml",
	} {
		for _, found := range name.FindAllString(file(t, path), -1) {
			f, _ := family(found)
			require.True(t, f != nil || slices.Contains(derived, found), "%s names %s, which does not exist", path, found)
		}
	}
}

// The number that an autoscaler on lag would see is on the dashboard, beside what waits.
func TestF49DashboardAndAlertsJudgeByWhatIsOverdue(t *testing.T) {
	var exprs []string
	for _, r := range alerts(t) {
		exprs = append(exprs, r.Expr)
		require.NotContains(t, r.Expr, "completed_above_watermark", "%s alerts on lag that is no work", r.Alert)
		require.NotContains(t, r.Expr, "watermark_offset", "%s alerts on lag that is no work", r.Alert)
	}
	require.Contains(t, strings.Join(exprs, "\n"), "delay_scheduler_oldest_overdue_seconds")
	var shown strings.Builder
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			shown.WriteString(target.Expr)
		}
	}
	for _, metric := range []string{"pending_records", "overdue_not_in_flight_records", "oldest_overdue_seconds", "next_due_timestamp_seconds", "completed_above_watermark"} {
		require.Contains(t, shown.String(), "delay_scheduler_"+metric)
	}
}
