// Package scheduler keeps what is pending and decides when it leaves. It runs one
// loop per partition: fill, fire, complete, commit.
//
// It never talks to Kafka and never imports a client: it reads through a Log, sends
// through a Port, commits through a Session, and is told by a membership what it
// owns (Handler). So all of it runs under testing/synctest.
//
// A partition's state (index, completed set, waiting records) belongs to the
// goroutine of its loop; others reach it by command or read the snapshot that the
// loop publishes. The state outlives the claim: over a rebalance it is kept when the
// group still holds exactly our last commit. Two mutexes are shared, and neither is
// held while a loop is waited for: the Scheduler's guards the table of partitions and
// what is remembered of lost ones, clockWatch's what is known of the clocks.
package scheduler
