// Package config turns a file, the environment and flags into one validated value.
//
// It is the only package that uses viper, and it knows nothing of the parts that
// it configures: app hands each of them its settings. It does not watch for
// changes: what Load returns is for the life of the process, and must not be
// changed, so any goroutine may read it.
//
// The struct is the source of all descriptions: what docs/configuration.md and
// DefaultYAML say is generated from the comments here.
package config

//go:generate go test . -run TestGeneratedFilesAreUpToDate -update
