package config

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// field is one key of a struct.
type field struct {
	name     string // as in the file
	index    int
	typ      reflect.Type
	limits   string // tag range: low..high
	oneOf    string // tag oneof: the values
	optional bool   // a duration that may be empty
}

// fieldsOf lists the keys of a struct in order. Fields without a tag are no keys.
func fieldsOf(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		if name := f.Tag.Get("mapstructure"); name != "" {
			fields = append(fields, field{
				name: name, index: i, typ: f.Type,
				limits: f.Tag.Get("range"), oneOf: f.Tag.Get("oneof"), optional: f.Tag.Get("optional") != "",
			})
		}
	}
	return fields
}

func fieldNamed(t reflect.Type, name string) (field, bool) {
	for _, f := range fieldsOf(t) {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// structOf gives the struct behind a section, and whether it is one.
func structOf(t reflect.Type) (reflect.Type, bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t, t.Kind() == reflect.Struct
}

// objectsOf gives the struct of a list of objects, and whether it is one.
func objectsOf(t reflect.Type) (reflect.Type, bool) {
	if t.Kind() != reflect.Slice {
		return nil, false
	}
	return structOf(t.Elem())
}

// joinPath appends a key to the path of its section.
func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// keys lists the paths of all keys, sections included. The keys of a list's objects
// have [] in their paths.
func keys(t reflect.Type, path string) []string {
	var all []string
	for _, f := range fieldsOf(t) {
		p := joinPath(path, f.name)
		all = append(all, p)
		if s, ok := structOf(f.typ); ok {
			all = append(all, keys(s, p)...)
		} else if s, ok := objectsOf(f.typ); ok {
			all = append(all, keys(s, p+"[]")...)
		}
	}
	return all
}

// settable lists the paths that the environment and flags can set: all that are not
// in a list of objects. The list itself is among them, so that an attempt to set it
// is noticed.
func settable(t reflect.Type, path string) []string {
	var all []string
	for _, f := range fieldsOf(t) {
		p := joinPath(path, f.name)
		if s, ok := structOf(f.typ); ok {
			all = append(all, settable(s, p)...)
		} else {
			all = append(all, p)
		}
	}
	return all
}

var (
	configType   = reflect.TypeFor[Config]()
	durationType = reflect.TypeFor[time.Duration]()
	bytesType    = reflect.TypeFor[Bytes]()
	secretType   = reflect.TypeFor[Secret]()
)

// mayBeSecret says whether a known key is a secret, or a section with one.
func mayBeSecret(path string) bool {
	t := configType
	for name := range strings.SplitSeq(withoutIndexes(path), ".") {
		s, _ := structOf(t)
		f, ok := fieldNamed(s, strings.TrimSuffix(name, "[]"))
		if !ok {
			return false
		}
		if t = f.typ; t.Kind() == reflect.Slice {
			t = t.Elem()
		}
	}
	s, section := structOf(t)
	return t == secretType || section && holdsSecret(s)
}

// holdsSecret says whether one of a section's own keys is a secret.
func holdsSecret(t reflect.Type) bool {
	return slices.ContainsFunc(fieldsOf(t), func(f field) bool { return f.typ == secretType })
}

func unknownKey(path string) string {
	return "unknown key, the nearest known one is " + nearest(path)
}

// nearest finds the known key that an unknown one was most likely meant to be: a
// slip of the fingers in a key of the same section, or a key of another section.
func nearest(path string) string {
	parent, name := splitPath(path)
	generic := withoutIndexes(parent)
	best, least := "", 1<<30
	for _, known := range keys(configType, "") {
		p, n := splitPath(known)
		cost := 4 * distance(name, n)
		switch {
		case p != generic:
			cost += 3
		case len(name) > 2 && strings.HasPrefix(n, name):
			cost = min(cost, 5) // user for username, ca for ca_file
		}
		if cost < least {
			best, least = known, cost
			if p == generic {
				best = joinPath(parent, n)
			}
		}
	}
	return best
}

func splitPath(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// withoutIndexes makes sources[] of sources[3].
func withoutIndexes(path string) string {
	var b strings.Builder
	skip := false
	for _, c := range path {
		if c == ']' {
			skip = false
		}
		if !skip {
			b.WriteRune(c)
		}
		if c == '[' {
			skip = true
		}
	}
	return b.String()
}

// distance is Levenshtein's: the least number of single changes from a to b. Names
// longer than any key are all equally far.
func distance(a, b string) int {
	if len(a) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}

func valueOf(c *Config) reflect.Value { return reflect.ValueOf(c).Elem() }
