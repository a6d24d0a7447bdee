package testkafka

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// javaPath is the JVM that brokers run on.
func javaPath() string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin", "java")
	}
	return "java"
}

// java is a command that runs a class of the distribution.
func (d *distribution) java(s settings, class string, args ...string) *exec.Cmd {
	flags := []string{
		fmt.Sprintf("-Xmx%dm", s.heap), "-XX:+UseSerialGC",
		"-XX:-UsePerfData", // It would leave a file behind when the broker is killed.
		"-Dlog4j2.configurationFile=" + loggingFile,
	}
	if !s.optimized {
		flags = append(flags, "-XX:TieredStopAtLevel=1")
	}
	if _, err := os.Stat(filepath.Join(d.dir, archiveFile)); err == nil {
		flags = append(flags, "-XX:SharedArchiveFile="+archiveFile, "-Xlog:disable", "-Xlog:all=error:stderr")
	}
	return d.command(flags, class, args...)
}

func (d *distribution) command(flags []string, class string, args ...string) *exec.Cmd {
	classpath := strings.Join(d.jars, string(os.PathListSeparator))
	cmd := exec.Command(javaPath(), append(append(flags, "-cp", classpath, class), args...)...) //nolint:noctx // Brokers end by signal, not with a context.
	cmd.Dir = d.dir
	return cmd
}

// formatTemplate formats a data directory whose copies serve every node of every
// cluster: only the ids in meta.properties differ, and a JVM to write those costs a second.
func (d *distribution) formatTemplate() error {
	n := &node{client: "127.0.0.1:1", internal: "127.0.0.1:2", controller: "127.0.0.1:3", dir: filepath.Join(d.dir, "format")}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return fmt.Errorf("make a directory to format in: %w", err)
	}
	s := settings{version: d.version, brokers: 1, heap: defaultHeap}
	if err := os.WriteFile(n.propertiesFile(), []byte(serverProperties(s, n, []*node{n})), 0o644); err != nil {
		return fmt.Errorf("write properties to format with: %w", err)
	}
	format := d.java(s, "kafka.tools.StorageTool", "format", "-t", newUUID(), "-c", n.propertiesFile())
	if output, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("format storage of Kafka %s: %w\n%s", d.version, err, output)
	}
	if err := os.Rename(n.dataDir(), filepath.Join(d.dir, templateDir)); err != nil {
		return fmt.Errorf("keep the formatted storage: %w", err)
	}
	return os.RemoveAll(n.dir)
}

// formatData makes the data directory of a node that has none.
func (d *distribution) formatData(dir string, id int32, clusterID string) error {
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(d.dir, templateDir))); err != nil {
		return fmt.Errorf("copy the formatted storage: %w", err)
	}
	file := filepath.Join(dir, "meta.properties")
	meta, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the formatted storage: %w", err)
	}
	for key, value := range map[string]string{
		"cluster.id": clusterID, "node.id": fmt.Sprint(id), "directory.id": newUUID(),
	} {
		// A version that does not know a key has no such line.
		line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + `=.*$`)
		meta = line.ReplaceAllLiteral(meta, []byte(key+"="+value))
	}
	if err := os.WriteFile(file, meta, 0o644); err != nil {
		return fmt.Errorf("write the formatted storage: %w", err)
	}
	return nil
}

// newUUID is what Kafka takes for one: 16 random bytes in URL-safe base64, not
// beginning with a dash, which tools would take for an option.
func newUUID() string {
	for {
		var id [16]byte
		_, _ = rand.Read(id[:]) // It never fails.
		if s := base64.RawURLEncoding.EncodeToString(id[:]); s[0] != '-' {
			return s
		}
	}
}

// archiveClasses runs a broker once through what a test's start does, and lets the JVM
// write down what it loaded. A JVM that cannot do that leaves no archive, and starts
// are as slow as they were.
func (d *distribution) archiveClasses() error {
	s, err := newSettings([]Option{WithVersion(d.version)})
	if err != nil {
		return err
	}
	server, err := launchOn(d, s, func(n *node) error {
		flags := []string{
			"-XX:ArchiveClassesAtExit=" + archiveFile, "-Xlog:disable",
			"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.configurationFile=" + loggingFile,
		}
		var err error
		n.process, err = startProcess(d.command(flags, "kafka.Kafka", n.propertiesFile()), n.outputFile())
		return err
	})
	if err != nil {
		return fmt.Errorf("start Kafka %s for the first time: %w", d.version, err)
	}
	// Writing the archive takes its time on a busy machine.
	return errors.Join(server.nodes[0].terminate(2*time.Minute), server.Close())
}
