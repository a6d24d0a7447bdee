package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"delay-scheduler/internal/testkafka"
)

// around runs the command with a broker around it, and says at the end what the command's
// tests could not prove.
func around(command []string, signals <-chan os.Signal) (code int, err error) {
	env, stop, err := brokerFor(os.Stderr)
	if err != nil {
		return failed, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if os.Getenv(testkafka.EnvUnproven) == "" {
		file, err := os.CreateTemp("", "unproven-")
		if err != nil {
			return failed, fmt.Errorf("make a file for what is not proven: %w", err)
		}
		defer func() {
			report(os.Stderr, file)
			_ = os.Remove(file.Name()) // It is one of many in the temporary directory.
		}()
		env = append(env, testkafka.EnvUnproven+"="+file.Name())
	}
	return runCommand(command, env, signals)
}

// brokerFor starts a broker unless there is one, or cannot be one.
func brokerFor(stderr io.Writer) (env []string, stop func() error, err error) {
	nothing := func() error { return nil }
	if os.Getenv(testkafka.EnvBrokers) != "" {
		return nil, nothing, nil
	}
	if ok, why := testkafka.Available(); !ok {
		fmt.Fprintf(stderr, "broker: no Apache Kafka for this run: %s\n", why)
		return nil, nothing, nil
	}
	server, err := testkafka.Launch(testkafka.WithOptimizer())
	if err != nil {
		return nil, nil, err
	}
	addrs := strings.Join(server.Addrs(), ",")
	fmt.Fprintf(stderr, "broker: Apache Kafka %s on %s\n", server.Version(), addrs)
	return []string{
		testkafka.EnvBrokers + "=" + addrs,
		testkafka.EnvBrokersVersion + "=" + server.Version(),
	}, server.Close, nil
}

// runCommand runs it in our place: its input, output and exit code are ours.
func runCommand(command, env []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // It ends by itself or by the signals that we pass on.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		return failed, fmt.Errorf("run %s: %w", command[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			// A terminal sends SIGINT to the command as well as to us.
			if sig != syscall.SIGINT {
				_ = cmd.Process.Signal(sig) // It may have ended meanwhile.
			}
		case err := <-ended:
			return exitCode(err)
		}
	}
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil // As a shell says it.
	}
	return exit.ExitCode(), nil
}

// report prints each line of the file once.
func report(stderr io.Writer, file *os.File) {
	defer func() { _ = file.Close() }() // It was only read.
	var lines []string
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(stderr, "\nNOT PROVEN on this machine (%d):\n", len(lines))
	for _, line := range lines {
		fmt.Fprintln(stderr, "  "+line)
	}
}
