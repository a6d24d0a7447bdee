package devbroker_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"delay-scheduler/devbroker"
)

// childDir makes this test binary a process that runs a broker on that directory until
// it is killed: only another process can be killed for real.
const childDir = "DEVBROKER_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		runChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func runChild(dir string) {
	broker, err := devbroker.Start(devbroker.Options{DataDir: dir, AutoCreate: true, Partitions: 3})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(broker.Addr())
	select {}
}
