package main

import (
	"cmp"
	"slices"
)

// number is what figures are made of.
type number interface{ ~int64 | ~float64 }

// median is the middle one, or the lower of the two in the middle: what is reported
// was measured.
func median[T number](values []T) T { return percentile(values, 50) }

// percentile is the least value that p percent of all are not above, 0 of none.
func percentile[T number](values []T, p int) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// spread is how values are distributed.
type spread[T cmp.Ordered] struct{ P50, P99, Max T }

func spreadOf[T number](values []T) spread[T] {
	return spread[T]{P50: percentile(values, 50), P99: percentile(values, 99), Max: percentile(values, 100)}
}

// per gives one field of each run.
func per[R any, T number](runs []R, field func(R) T) []T {
	var out []T
	for _, r := range runs {
		out = append(out, field(r))
	}
	return out
}

func sum[T number](values []T) (total T) {
	for _, v := range values {
		total += v
	}
	return total
}
