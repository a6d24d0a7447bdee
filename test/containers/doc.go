// Package containers runs the product as its users do: its image beside a broker's, with
// a read-only root and no capabilities, and deploy/compose.yaml as it is. run.sh prepares
// the engine and the images; without it the tests are skipped.
//
// It is a module of its own: the container library brings many times the modules that the
// program needs.
package containers
