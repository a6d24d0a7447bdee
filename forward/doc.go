// Package forward takes due records to their targets: it decides when a target may
// be written to, how much may be under way, what follows from an error, and what
// ends in a dead-letter topic.
//
// Every target has a lane. A lane in trouble takes nothing until a probe finds the
// target well, so its records wait with whoever owns them and hold back nobody
// else's. What is handed to the producer is bounded in bytes, for all lanes together
// and for each.
//
// The package never looks at when a record is due, never commits, and knows no Kafka
// client: the Producer is handed in, and refusals come in the classes declared here.
//
// Concurrency: a Port belongs to the goroutine of one source partition. The lanes
// belong to the Forwarder, under one mutex that is held for moments and never while
// records are built or produced. One goroutine, the keeper, drops idle lanes and hands
// over what waits for a dead-letter topic; a lane that is not open has one more, which
// asks the cluster. Lock order: Forwarder.pumping, Forwarder.mu, Port.mu.
package forward
