package measure

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The drawing's measures, in its own units.
const (
	chartWidth, chartHeight = 900, 360
	chartLeft, chartRight   = 70, 20
	chartTop, chartBottom   = 56, 48
	plotWidth               = chartWidth - chartLeft - chartRight
	plotHeight              = chartHeight - chartTop - chartBottom
	chartStyle              = `<style>
svg{background:#fff;font:13px system-ui,sans-serif}text{fill:#333}.grid{stroke:#ddd}.p50{stroke:#0a7d43}.p99{stroke:#1f5fbf}.max{stroke:#c2410c}
polyline{fill:none;stroke-width:1.6;stroke-linejoin:round}circle{stroke:none}circle.p50{fill:#0a7d43}circle.p99{fill:#1f5fbf}circle.max{fill:#c2410c}
@media (prefers-color-scheme:dark){svg{background:#16181d}text{fill:#d5d8de}.grid{stroke:#3a3f49}.p50{stroke:#4ade80}.p99{stroke:#7cb0ff}.max{stroke:#ff9d66}
circle.p50{fill:#4ade80}circle.p99{fill:#7cb0ff}circle.max{fill:#ff9d66}}
</style>
`
)

// Chart draws lateness over time as SVG: of the records that were due in each second the
// median, the 99th percentile and the worst, in ms and on a logarithmic scale, because
// all of them matter and they are far apart.
func Chart(title string, seconds []Second) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n",
		chartWidth, chartHeight, html.EscapeString(title))
	b.WriteString(chartStyle)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-weight="600">%s</text>`+"\n", chartLeft, html.EscapeString(title))
	s := scaleOf(seconds)
	s.grid(&b)
	for i, l := range chartLines {
		x := chartLeft + 110*i
		fmt.Fprintf(&b, `<circle class="%s" cx="%d" cy="37" r="5"/><text x="%d" y="41">%s</text>`+"\n", l.name, x+5, x+16, l.name)
		s.line(&b, l.name, seconds, l.of)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

var chartLines = []struct {
	name string
	of   func(Second) int64
}{
	{"max", func(s Second) int64 { return s.Max }},
	{"p99", func(s Second) int64 { return s.P99 }},
	{"p50", func(s Second) int64 { return s.P50 }},
}

// scale turns seconds and ms into places. The vertical one goes from 1 ms (0 is drawn
// there, too) to the power of ten above the worst.
type scale struct {
	seconds float64
	decades float64
}

func scaleOf(seconds []Second) scale {
	s := scale{seconds: 1, decades: 1}
	for _, p := range seconds {
		s.seconds = max(s.seconds, float64(p.At))
		s.decades = max(s.decades, math.Ceil(math.Log10(float64(max(p.Max, 1)))))
	}
	return s
}

func (s scale) x(at float64) float64 { return chartLeft + at/s.seconds*plotWidth }

func (s scale) y(ms int64) float64 {
	return chartTop + plotHeight - math.Log10(float64(max(ms, 1)))/s.decades*plotHeight
}

func (s scale) grid(b *strings.Builder) {
	for d := 0; d <= int(s.decades); d++ {
		ms := int64(math.Pow10(d))
		fmt.Fprintf(b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			chartLeft, chartWidth-chartRight, s.y(ms), s.y(ms), chartLeft-8, s.y(ms)+4, axisTime(ms))
	}
	const steps = 6
	for i := range steps + 1 {
		at := s.seconds * float64(i) / steps
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%.0f s</text>`+"\n", s.x(at), chartTop+plotHeight+20, at)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">due after the first record</text>`+"\n", chartLeft+plotWidth/2, chartHeight-8)
}

func axisTime(ms int64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%d s", ms/1000)
	}
	return fmt.Sprintf("%d ms", ms)
}

// line draws one line; a second alone is a dot.
func (s scale) line(b *strings.Builder, class string, seconds []Second, of func(Second) int64) {
	if len(seconds) == 1 {
		fmt.Fprintf(b, `<circle class="%s" cx="%.1f" cy="%.1f" r="4"/>`+"\n", class, s.x(float64(seconds[0].At)), s.y(of(seconds[0])))
		return
	}
	var points []string
	for _, p := range seconds {
		points = append(points, fmt.Sprintf("%.1f,%.1f", s.x(float64(p.At)), s.y(of(p))))
	}
	fmt.Fprintf(b, `<polyline class="%s" points="%s"/>`+"\n", class, strings.Join(points, " "))
}
