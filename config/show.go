package config

import (
	_ "embed"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

//go:embed default.yaml
var defaultYAML string

// DefaultYAML is a file with every key, what it means, and its default.
func DefaultYAML() string { return defaultYAML }

// Show writes the configuration as a file. Secrets are hidden.
func (c *Config) Show() string {
	w := writer{comment: func(reflect.Type, field) string { return "" }}
	w.section(reflect.ValueOf(c).Elem(), "")
	return w.String()
}

// writer writes a configuration as YAML.
type writer struct {
	strings.Builder
	comment func(section reflect.Type, f field) string // lines to go above a key
}

func (w *writer) section(v reflect.Value, indent string) {
	for _, f := range fieldsOf(v.Type()) {
		w.key(v.Type(), f, v.Field(f.index), indent)
	}
}

func (w *writer) key(section reflect.Type, f field, v reflect.Value, indent string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return // its absence says something
		}
		v = v.Elem()
	}
	if text := w.comment(section, f); text != "" {
		for line := range strings.Lines(text) {
			w.WriteString(indent + strings.TrimRight("# "+line, " \n") + "\n")
		}
	}
	w.WriteString(indent + f.name + ":")
	switch {
	case v.Kind() == reflect.Struct:
		w.WriteString("\n")
		w.section(v, indent+"  ")
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		w.objects(v, indent)
	case v.Kind() == reflect.Slice:
		w.WriteString(" " + scalars(v) + "\n")
	default:
		w.WriteString(" " + scalar(v, f) + "\n")
	}
}

// objects writes a list of sections: the first line of each begins with a hyphen.
func (w *writer) objects(list reflect.Value, indent string) {
	if list.Len() == 0 {
		w.WriteString(" []\n")
		return
	}
	w.WriteString("\n")
	for i := range list.Len() {
		item := writer{comment: w.comment}
		item.section(list.Index(i), "")
		first := true
		for line := range strings.Lines(item.String()) {
			lead := indent + "    "
			if first && !strings.HasPrefix(line, "#") {
				lead = indent + "  - "
				first = false
			}
			w.WriteString(lead + line)
		}
	}
}

func scalars(list reflect.Value) string {
	items := make([]string, list.Len())
	for i := range items {
		items[i] = scalar(list.Index(i), field{})
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// scalar writes one value as YAML.
func scalar(v reflect.Value, f field) string {
	if f.optional && v.IsZero() {
		return `""`
	}
	s := format(v)
	if v.Kind() == reflect.String && (!plain.MatchString(s) || meaning.MatchString(s)) {
		return strconv.Quote(s)
	}
	return s
}

// plain are texts that YAML takes as they are, also in a list, unless they are words
// with a meaning. All others are quoted.
var (
	plain   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*(:[0-9]+)?$`)
	meaning = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|y|n|null)$`)
)
