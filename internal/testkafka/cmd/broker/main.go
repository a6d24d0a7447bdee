// Command broker keeps one Apache Kafka for tests, so that the packages of a test run
// share it instead of starting one each.
//
// It never leaves the broker behind: that dies with it. All work is in testkafka.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"delay-scheduler/internal/testkafka"
)

const usage = `Starts one Apache Kafka for tests.

  broker                     prints its address on a line, and runs until standard input
                             is closed or SIGTERM comes
  broker -- COMMAND [ARG]... runs the command with TEST_KAFKA_BROKERS and
                             TEST_KAFKA_VERSION set, and exits with its exit code

KAFKA_VERSION names another version than ` + testkafka.DefaultVersion + `. Where there is no Java or
Maven the command runs all the same; what its tests could not prove is said at the end.
`

// failed is the exit code for what is wrong with us, not with the command.
const failed = 1

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	var err error
	code := 0
	if command := flags.Args(); len(command) > 0 {
		code, err = around(command, signals)
	} else {
		err = serve(os.Stdin, os.Stdout, signals)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		return max(code, failed)
	}
	return code
}

// serve runs a broker until standard input ends or a signal comes.
func serve(stdin io.Reader, stdout io.Writer, signals <-chan os.Signal) error {
	// It may serve for minutes: worth compiling for.
	server, err := testkafka.Launch(testkafka.WithOptimizer())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, strings.Join(server.Addrs(), ",")); err != nil {
		_ = server.Close() // Nobody reads what we say any more.
		return fmt.Errorf("print the address: %w", err)
	}
	closed := make(chan struct{})
	go func() { // It ends with its read, at the latest with the process.
		_, _ = io.Copy(io.Discard, stdin)
		close(closed)
	}()
	select {
	case <-closed:
	case <-signals:
	}
	return server.Close()
}
