package delay

// Rules are one source's.
type Rules struct{}
