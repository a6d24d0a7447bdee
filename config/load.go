package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/viper"
)

const (
	envPrefix = "SCHEDULER"
	// maxFile is far more than any configuration needs.
	maxFile = 4 * mib
)

// Load reads a configuration: the overrides (path to value, as from flags), the
// environment, the file at path unless that is empty, the defaults, in this order of
// precedence. The error names everything that is wrong, each as a *FieldError, joined.
func Load(path string, overrides map[string]string) (*Config, error) {
	var text []byte
	if path != "" {
		var err error
		if text, err = readFile(path); err != nil {
			return nil, err
		}
	}
	return build(path, text, overrides)
}

func build(path string, text []byte, overrides map[string]string) (*Config, error) {
	doc, err := parseDocument(path, text)
	if err != nil {
		return nil, err
	}
	values, err := merge(doc.values, overrides)
	if err != nil {
		return nil, err
	}
	c := Default()
	var d decoder
	d.section(values, valueOf(c), "")
	c.fill()
	found := slices.Concat(doc.problems, unknownOverrides(overrides), d.problems)
	for _, e := range c.check() {
		if !found.concern(e.Path) {
			found = append(found, e)
		}
	}
	for _, e := range found {
		if e.Where == "" {
			e.Where = whereSet(e.Path, doc, overrides)
		}
	}
	if len(found) > 0 {
		return nil, found.err()
	}
	c.warnings = unknownEnvironment(os.Environ())
	return c, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("read configuration %s: %v is more than a configuration can have", path, Bytes(info.Size()))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return text, nil
}

// merge lays the environment over the file and the overrides over both.
func merge(file map[string]any, overrides map[string]string) (map[string]any, error) {
	v := viper.NewWithOptions(viper.EnvKeyReplacer(strings.NewReplacer(".", "_")))
	v.SetEnvPrefix(envPrefix)
	known := settable(configType, "")
	for _, path := range known {
		if err := v.BindEnv(path); err != nil {
			return nil, fmt.Errorf("bind the environment to %s: %w", path, err)
		}
	}
	if err := v.MergeConfigMap(file); err != nil {
		return nil, fmt.Errorf("merge the configuration file: %w", err)
	}
	for path, value := range overrides {
		if slices.Contains(known, path) {
			v.Set(path, value)
		}
	}
	return v.AllSettings(), nil
}

// envName is the environment variable of a path.
func envName(path string) string {
	return envPrefix + "_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// whereSet names the place that a value comes from. The value of a list's item, or of
// a key in a list's object, comes from where the list does.
func whereSet(path string, doc *document, overrides map[string]string) string {
	whole, _, _ := strings.Cut(path, "[")
	if _, ok := overrides[whole]; ok {
		return "flag"
	}
	if os.Getenv(envName(whole)) != "" && slices.Contains(settable(configType, ""), whole) {
		return envName(whole)
	}
	return doc.where(path)
}

func unknownOverrides(overrides map[string]string) problems {
	var p problems
	known := settable(configType, "")
	for path, value := range overrides {
		if !slices.Contains(known, path) {
			if mayBeSecret(nearest(path)) {
				value = "" // it was most likely meant to be one
			}
			p.add(path, value, unknownKey(path))
			p[len(p)-1].Where = "flag"
		}
	}
	slices.SortFunc(p, func(a, b *FieldError) int { return strings.Compare(a.Path, b.Path) })
	return p
}

// unknownEnvironment warns of variables that look like ours and set nothing. They are
// no errors: Kubernetes sets SCHEDULER_PORT and the like for a service of that name,
// and a process inherits what is meant for others.
func unknownEnvironment(environment []string) []string {
	known := settable(configType, "")
	var w []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		rest, ours := strings.CutPrefix(name, envPrefix+"_")
		if !ours || strings.HasPrefix(rest, "PORT") || strings.HasPrefix(rest, "SERVICE_") {
			continue
		}
		if slices.ContainsFunc(known, func(path string) bool { return envName(path) == name }) {
			continue
		}
		w = append(w, fmt.Sprintf("environment variable %s sets nothing, the nearest known one is %s", name, nearestVariable(name, known)))
	}
	return w
}

func nearestVariable(name string, known []string) string {
	best, least := "", 1<<30
	for _, path := range known {
		if d := distance(name, envName(path)); d < least {
			best, least = envName(path), d
		}
	}
	return best
}

// concern says whether one of the problems is about a path or about what it is part
// of, so that nobody is told that a value which cannot be read is also missing.
func (p problems) concern(path string) bool {
	return slices.ContainsFunc(p, func(e *FieldError) bool {
		rest, ok := strings.CutPrefix(path, e.Path)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}
