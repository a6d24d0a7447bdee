package testkafka

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// distribution is one version of Apache Kafka, ready to start, in a directory of the
// user's cache that is complete or not there.
type distribution struct {
	version string
	dir     string
	jars    []string // relative to dir, sorted
}

// What a distribution's directory holds. Everything in it is named relative to it: the
// class archive remembers the class path as it was given.
const (
	libsDir     = "libs"
	templateDir = "template" // of a formatted data directory
	archiveFile = "classes.jsa"
	loggingFile = "log4j2.xml"
)

//go:embed log4j2.xml
var loggingConfig []byte

// mavenPatience is for a slow network; 54 MB come once per version and machine.
const mavenPatience = 10 * time.Minute

// fetchDistribution returns the version from the cache, or fills the cache: the jars
// with Maven, a formatted data directory, and an archive of the classes that a start
// loads. The last two cost ten seconds once and save three seconds of CPU on each start.
// Packages whose tests run at the same time wait for the one that came first.
func fetchDistribution(version string) (*distribution, error) {
	root, err := cacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "kafka-"+version)
	lock, err := lockFile(dir+".lock", syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }() // Closing is what unlocks; nothing was written.
	if _, err := os.Stat(dir); err == nil {
		return openDistribution(version, dir)
	}
	return buildDistribution(version, dir)
}

func cacheDir() (string, error) {
	root, err := os.UserCacheDir()
	if err != nil {
		root = os.TempDir()
	}
	root = filepath.Join(root, "delay-scheduler")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("make the cache of brokers: %w", err)
	}
	return root, nil
}

// cached says that the version needs nothing from the network.
func cached(version string) bool {
	root, err := cacheDir()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(root, "kafka-"+version))
	return err == nil
}

func openDistribution(version, dir string) (*distribution, error) {
	paths, err := filepath.Glob(filepath.Join(dir, libsDir, "*.jar"))
	if err != nil {
		return nil, fmt.Errorf("list the jars of Kafka %s: %w", version, err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no jars in %s: remove that directory, and it is fetched again", dir)
	}
	d := &distribution{version: version, dir: dir}
	for _, path := range paths {
		d.jars = append(d.jars, filepath.Join(libsDir, filepath.Base(path)))
	}
	slices.Sort(d.jars)
	return d, d.configureLogging()
}

// configureLogging keeps a directory that an older state of this package filled up to date.
func (d *distribution) configureLogging() error {
	file := filepath.Join(d.dir, loggingFile)
	if there, err := os.ReadFile(file); err == nil && bytes.Equal(there, loggingConfig) {
		return nil
	}
	if err := os.WriteFile(file, loggingConfig, 0o644); err != nil {
		return fmt.Errorf("write the logging configuration: %w", err)
	}
	return nil
}

// buildDistribution works beside the final place and renames at the end, so that a build
// that is killed half-way leaves nothing that looks whole.
func buildDistribution(version, dir string) (d *distribution, err error) {
	tmp := dir + ".partial" // Ours alone: the lock is held.
	if err := os.RemoveAll(tmp); err != nil {
		return nil, fmt.Errorf("clear %s: %w", tmp, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w", tmp, err)
	}
	if err := fetchJars(version, tmp); err != nil {
		return nil, err
	}
	if d, err = openDistribution(version, tmp); err != nil {
		return nil, err
	}
	if err := d.formatTemplate(); err != nil {
		return nil, err
	}
	if err := d.archiveClasses(); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return nil, fmt.Errorf("keep Kafka %s: %w", version, err)
	}
	d.dir = dir
	return d, nil
}

// pom asks for the broker, its command line tools and something that keeps its log at INFO.
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>delay-scheduler</groupId>
  <artifactId>test-broker</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>VERSION</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>VERSION</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.2</version></dependency>
  </dependencies>
</project>
`

func fetchJars(version, dir string) error {
	file := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(pom, "VERSION", version)), 0o644); err != nil {
		return fmt.Errorf("write the pom of Kafka %s: %w", version, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), mavenPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", file,
		"dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(dir, libsDir))
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch Apache Kafka %s with Maven (it needs the network once): %w\n%s", version, err, output)
	}
	return nil
}
