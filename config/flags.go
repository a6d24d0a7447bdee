package config

import (
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/pflag"
)

// flagged are the keys that have a flag of their own.
var flagged = []struct{ flag, path, usage string }{
	{"brokers", "kafka.brokers", "addresses of brokers, host:port,host:port"},
	{"group-id", "group.id", "consumer group"},
	{"instance-id", "group.instance_id", "static membership: an id that no other process has"},
	{"memory-budget", "memory.budget", "what pending records may take, such as 256MiB"},
	{"http-listen", "http.listen", "address of health, metrics and status, host:port"},
	{"log-level", "log.level", "debug, info, warn or error"},
	{"log-format", "log.format", "json or console"},
}

// AddFlags gives a command the flags of the common keys, and --set for all others.
// The function it returns gives those that were used, for Load.
func AddFlags(fs *pflag.FlagSet) func() (map[string]string, error) {
	for _, f := range flagged {
		fs.String(f.flag, "", f.usage+" ("+f.path+")")
	}
	set := fs.StringArray("set", nil, "any key of the configuration, as path=value; may be repeated")
	return func() (map[string]string, error) { return overrides(fs, *set) }
}

func overrides(fs *pflag.FlagSet, set []string) (map[string]string, error) {
	given := map[string]string{}
	for _, s := range set {
		path, value, ok := strings.Cut(s, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("--set is %q, must be path=value, such as forward.linger=20ms", s)
		}
		given[path] = value
	}
	own := map[string]string{}
	for _, f := range flagged {
		if fs.Changed(f.flag) {
			value, err := fs.GetString(f.flag)
			if err != nil {
				return nil, fmt.Errorf("read --%s: %w", f.flag, err)
			}
			own[f.path] = value
		}
	}
	maps.Copy(given, own)
	return given, nil
}
