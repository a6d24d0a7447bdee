// Package deploy holds tests of what lies beside the program: the Dockerfile, compose.yaml,
// the Kubernetes manifests, the alert rules, the dashboard and docs/operations.md agree
// with each other and with the program, which is built and asked. It starts no container.
//
// It is a module of its own: the API types of Kubernetes and the parser of Prometheus
// would be three times the modules that the program itself needs.
package deploy
