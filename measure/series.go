package measure

// Second is what became of the records that were due in one second of the run, or in a
// few if the run is long.
type Second struct {
	At      int   `json:"at_s"` // seconds from the first due second
	Records int   `json:"records"`
	P50     int64 `json:"p50_late_ms"`
	P99     int64 `json:"p99_late_ms"`
	Max     int64 `json:"max_late_ms"`
}

// maxSlots bounds a series. When there would be more, two neighbours become one.
const maxSlots = 1200

// series counts lateness by due second.
type series struct {
	base  int64 // epoch s of the first slot
	width int64 // s
	slots []*Histogram
}

func newSeries(base int64) *series { return &series{base: base, width: 1} }

func (s *series) add(dueSecond, late int64) {
	i := max(dueSecond-s.base, 0) / s.width
	for ; i >= maxSlots; i /= 2 {
		s.halve()
	}
	for int64(len(s.slots)) <= i {
		s.slots = append(s.slots, nil)
	}
	if s.slots[i] == nil {
		s.slots[i] = &Histogram{precision: coarsePrecision}
	}
	s.slots[i].Add(late)
}

func (s *series) halve() {
	s.width *= 2
	half := make([]*Histogram, (len(s.slots)+1)/2)
	for i, h := range s.slots {
		switch {
		case h == nil:
		case half[i/2] == nil:
			half[i/2] = h
		default:
			half[i/2].merge(h)
		}
	}
	s.slots = half
}

// seconds are the slots that have records, counted from the first of these.
func (s *series) seconds() (out []Second) {
	first := -1
	for i, h := range s.slots {
		if h == nil {
			continue
		}
		if first < 0 {
			first = i
		}
		out = append(out, Second{
			At: (i - first) * int(s.width), Records: h.Count(),
			P50: h.Percentile(50), P99: h.Percentile(99), Max: h.Max(),
		})
	}
	return out
}
