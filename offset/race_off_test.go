//go:build !race

package offset

const raced = false
