package preflight

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// long writes a duration in the largest units that say it.
func long(d time.Duration) string {
	switch {
	case d >= day && d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	case d >= 2*day:
		return fmt.Sprintf("%.1fd", d.Hours()/24)
	case d >= time.Minute:
		s := d.Round(time.Second).String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
		return s
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// size writes an amount of bytes.
func size(n int64) string {
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes {
			return strconv.FormatFloat(float64(n*10/u.bytes)/10, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// most is how many names a sentence lists.
const most = 5

// some lists a few names.
func some(names []string) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Long writes a duration as findings do: in days, if it is that long.
func Long(d time.Duration) string { return long(d) }
