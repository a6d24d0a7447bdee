package measure

import (
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// elements reads a drawing to its end, and gives its elements by name.
func elements(t *testing.T, svg string) map[string][]xml.StartElement {
	t.Helper()
	all := map[string][]xml.StartElement{}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, svg)
		if e, ok := token.(xml.StartElement); ok {
			all[e.Name.Local] = append(all[e.Name.Local], e.Copy())
		}
	}
}

func TestChartHasALineForEachPercentileWithinItsBounds(t *testing.T) {
	svg := Chart(`a <b> & "c"`, []Second{{At: 0, P50: 1, P99: 20, Max: 90}, {At: 1, P50: 0, P99: 3, Max: 5000}, {At: 9, P50: 2, P99: 9, Max: 9}})

	all := elements(t, svg)
	require.Len(t, all["polyline"], 3)
	for _, line := range all["polyline"] {
		points := strings.Fields(attribute(line, "points"))
		require.Len(t, points, 3)
		for _, p := range points {
			x, y, _ := strings.Cut(p, ",")
			within(t, x, chartLeft, chartWidth-chartRight)
			within(t, y, chartTop, chartHeight-chartBottom)
		}
	}
	require.Contains(t, svg, "prefers-color-scheme:dark")
	require.Contains(t, svg, ">10 s</text>", "the power of ten above the worst")
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func within(t *testing.T, text string, least, most float64) {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, v, least)
	require.LessOrEqual(t, v, most)
}

func TestChartOfOneSecondHasDotsAndThatOfNothingIsEmpty(t *testing.T) {
	one := elements(t, Chart("one", []Second{{P50: 1, P99: 2, Max: 3}}))
	require.Len(t, one["circle"], 6, "three of the legend and three of the second")
	require.Empty(t, one["polyline"])
	require.NotPanics(t, func() { elements(t, Chart("none", nil)) })
}
