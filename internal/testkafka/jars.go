package testkafka

import (
	"path/filepath"
	"slices"
	"strings"
)

// ClientJars are the files that a Java program needs to be a client of the started version:
// kafka-clients, and the interface that it logs through. They come from the network once.
func ClientJars() ([]string, error) {
	d, err := fetchDistribution(Version())
	if err != nil {
		return nil, err
	}
	var jars []string
	for _, jar := range d.jars {
		name := filepath.Base(jar)
		if slices.ContainsFunc([]string{"kafka-clients-", "slf4j-api-"}, func(p string) bool { return strings.HasPrefix(name, p) }) {
			jars = append(jars, filepath.Join(d.dir, jar))
		}
	}
	return jars, nil
}
