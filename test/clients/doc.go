// Package clients runs the examples of README.md and docs/producers.md exactly as they
// are printed, in every language, against Apache Kafka and against `scheduler dev`, and
// looks at what arrives. It needs the clients that install.sh installs, and the address
// 127.0.0.1:9092, which the examples name: `make test-clients` sees to both.
package clients
