// Package security runs the whole product against a secured Apache Kafka: every way of
// encrypting and logging in, with access lists on, and what can be wrong with each.
//
// Its tests share one broker with a listener for each way.
package security
