// Command checker drives scheduler processes on a real broker and judges from outside
// whether they kept the promise: nothing lost, nothing early, nothing changed, nothing
// twice except what a SIGKILL allows.
//
// It knows the product only as BIN run -c FILE, its configuration keys and the message
// protocol, reads and writes with a client of its own, and judges by the broker's
// append times. It is proven by builds with deliberate faults (see e2e_test.go).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

// options are one run's.
type options struct {
	bin, brokers, dir     string
	records, size         int
	partitions, targets   int
	delay, grace          time.Duration
	processes             int
	kills, terms          int
	rate                  int
	seed                  uint64
	commitInterval        time.Duration
	sessionTimeout, pause time.Duration
	extra                 string
	static                bool
	jsonOut               bool
	fault                 string // for a build with deliberate faults
	resident              int    // MiB that a process may have; 0: not judged
	used                  string // a counter that has to have counted
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("checker", flag.ContinueOnError)
	f.StringVar(&o.bin, "bin", "bin/scheduler", "scheduler binary")
	f.StringVar(&o.brokers, "brokers", "127.0.0.1:9092", "bootstrap brokers, comma separated")
	f.IntVar(&o.records, "n", 20000, "records")
	f.IntVar(&o.size, "size", 200, "value bytes")
	f.IntVar(&o.partitions, "parts", 12, "partitions of the delay topic")
	f.IntVar(&o.targets, "targets", 4, "target topics")
	f.DurationVar(&o.delay, "delay", 10*time.Second, "delays are uniform in [0,delay]")
	f.DurationVar(&o.grace, "grace", 40*time.Second, "how long after the last due time a record may still arrive")
	f.IntVar(&o.processes, "procs", 2, "scheduler processes")
	f.IntVar(&o.kills, "kill", 0, "SIGKILLs at random moments")
	f.IntVar(&o.terms, "term", 0, "SIGTERMs at random moments")
	f.IntVar(&o.rate, "rate", 0, "records per second, 0: as fast as it goes")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of delays and moments")
	f.DurationVar(&o.commitInterval, "commit-interval", time.Second, "commit.interval of the scheduler")
	f.DurationVar(&o.sessionTimeout, "session-timeout", 10*time.Second, "group.session_timeout of the scheduler")
	f.DurationVar(&o.pause, "pause", 0, "how long a stopped process stays away")
	f.StringVar(&o.extra, "config", "", "YAML appended to the configuration")
	f.BoolVar(&o.static, "static", true, "give each process a group.instance_id")
	f.StringVar(&o.fault, "fault", "", "SCHEDULER_FAULT of a scheduler built with -tags fault")
	f.IntVar(&o.resident, "rss", 0, "MiB that a process may have resident, 0: as many as it likes (Linux)")
	f.StringVar(&o.used, "used", "", "a counter of /metrics that has to be above 0 in the end, such as that of a part that the run is about")
	f.BoolVar(&o.jsonOut, "json", false, "print the verdict as JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o, nil
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	v, err := check(context.Background(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checker:", err)
		os.Exit(2)
	}
	if o.jsonOut {
		_ = json.NewEncoder(os.Stdout).Encode(v)
	}
	fmt.Println(v)
	if !v.Kept() {
		os.Exit(1)
	}
}
