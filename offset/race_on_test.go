//go:build race

package offset

// raced says that the race detector is on. There is no concurrency here for it to judge,
// so the large cases, which it slows down twentyfold, are left to runs without it.
const raced = true
