package testkafka

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Available says whether tests can have a real broker, and why not.
func Available() (ok bool, why string) {
	if os.Getenv(EnvBrokers) != "" {
		return true, ""
	}
	return startable(Version())
}

// startable says whether this machine can start that version.
func startable(version string) (ok bool, why string) {
	if _, err := exec.LookPath(javaPath()); err != nil {
		return false, "there is no Java on this machine to run Apache Kafka on"
	}
	if cached(version) {
		return true, ""
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return false, fmt.Sprintf("there is no Maven on this machine to fetch Apache Kafka %s with", version)
	}
	return true, ""
}

// Need is Shared where there is a real broker. Elsewhere the test is skipped, and counted
// as not proven.
func Need(t testing.TB) *Cluster {
	t.Helper()
	if ok, why := Available(); !ok {
		skip(t, why)
	}
	return Shared(t)
}

// skip skips the test and leaves a line for whoever reports on the whole run.
func skip(t testing.TB, why string) {
	t.Helper()
	if file := os.Getenv(EnvUnproven); file != "" {
		if err := appendLine(file, t.Name()+": "+why); err != nil {
			t.Fatal(err)
		}
	}
	t.Skip("not proven here: " + why)
}

// appendLine adds a line in one write, so that the lines of several packages do not mix.
func appendLine(path, line string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("note what was not proven: %w", err)
	}
	if _, err := file.WriteString(strings.ReplaceAll(line, "\n", " ") + "\n"); err != nil {
		_ = file.Close() // The write's error says more.
		return fmt.Errorf("note what was not proven: %w", err)
	}
	return file.Close()
}
