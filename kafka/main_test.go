package kafka

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"delay-scheduler/internal/testkafka"
)

// TestMain fails the package when a test leaves a goroutine behind. The metrics
// library of the client has one that nothing can stop.
func TestMain(m *testing.M) {
	code := testkafka.Main(m)
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
