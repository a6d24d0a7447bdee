package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the generated files")

const (
	defaultFile = "default.yaml"
	docsFile    = "../docs/configuration.md"
)

// comments are those of the fields of all structs of this package: struct, field, text.
type comments map[string]map[string]string

func readComments(t *testing.T) comments {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	all := comments{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					all[spec.Name.Name] = fieldComments(s)
				}
			}
			return true
		})
	}
	return all
}

func fieldComments(s *ast.StructType) map[string]string {
	texts := map[string]string{}
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			texts[name.Name] = strings.TrimSpace(f.Doc.Text())
		}
	}
	return texts
}

// text is what a key's comment says, with the name that the file has for it, and the
// default that it claims.
func (c comments) text(section reflect.Type, f field) (text, claimed string) {
	goName := section.Field(f.index).Name
	text = c[section.Name()][goName]
	text = strings.Replace(text, goName, f.name, 1)
	if i := strings.LastIndex(text, "\nDefault: "); i >= 0 {
		claimed = strings.TrimSuffix(text[i+len("\nDefault: "):], ".")
		text = text[:i]
	}
	return text, claimed
}

func (c comments) defaultYAML() string {
	var w writer
	told := map[string]bool{}
	w.WriteString("# Every key with its meaning and its default. What a file does not name has the default,\n" +
		"# so keep only what you change: kafka.brokers alone makes a useful file.\n" +
		"# Durations: ms, s, m, h, d. Sizes: bytes, KiB, MiB, GiB. All keys but sources can also be set\n" +
		"# by environment: SCHEDULER_KAFKA_BROKERS=a:9092,b:9092.\n\n")
	w.comment = func(section reflect.Type, f field) string {
		key := section.Name() + "." + f.name
		if told[key] {
			return "" // in the second source as in the first
		}
		told[key] = true
		text, _ := c.text(section, f)
		if f.limits != "" {
			text += "\nRange: " + wantRange(f) + "."
		}
		if f.oneOf != "" {
			text += "\nOne of: " + strings.Join(strings.Fields(f.oneOf), ", ") + "."
		}
		return text
	}
	w.section(valueOf(Default()), "")
	return spaced(w.String())
}

// spaced puts an empty line before each description of a section at the left.
func spaced(text string) string {
	var b strings.Builder
	before := "#"
	for line := range strings.Lines(text) {
		if line[0] == '#' && before[0] != '#' && before != "\n" {
			b.WriteString("\n")
		}
		b.WriteString(line)
		before = line
	}
	return b.String()
}

func (c comments) docs() string {
	var b strings.Builder
	b.WriteString(docsHead)
	for _, f := range fieldsOf(configType) {
		c.docSection(&b, configType, f, valueOf(Default()).Field(f.index), f.name)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

const docsHead = `# Configuration

<!-- Generated from the comments in config/config.go by: make generate -->

A file, the environment and flags are put together. A flag wins over the environment, the environment over
the file, the file over the default. Everything has a default, so the smallest useful file is

` + "```yaml" + `
kafka:
  brokers: [localhost:9092]
` + "```" + `

- **Environment**: ` + "`SCHEDULER_`" + ` and the path in capitals with underscores, ` + "`SCHEDULER_KAFKA_BROKERS=a:9092,b:9092`" + `. Lists are
  separated by commas. An empty variable counts as not set.
- **Flags**: the common keys have one of their own (` + "`scheduler run --help`" + `), all others can be set with ` + "`--set path=value`" + `.
- **Durations** are Go's (` + "`500ms`, `30s`, `1h30m`" + `), and ` + "`d`" + ` stands for 24 hours (` + "`90d`" + `).
- **Sizes** are bytes, or have ` + "`KiB`, `MiB` or `GiB`" + `.
- **Mistakes** stop the start. All of them are named at once, each with its path, its value and what would be right; an unknown
  key is one of them. ` + "`scheduler config validate -c FILE`" + ` does only that, ` + "`scheduler config show -c FILE`" + ` prints what is in force,
  ` + "`scheduler config default`" + ` a file with everything in it.

`

func (c comments) docSection(b *strings.Builder, section reflect.Type, f field, v reflect.Value, path string) {
	t, ok := structOf(f.typ)
	if !ok {
		if t, ok = objectsOf(f.typ); !ok {
			c.docKey(b, section, f, v, path)
			return
		}
		path += "[]"
		v = reflect.New(t).Elem()
		v.Set(reflect.ValueOf(defaultSource()))
	}
	if v.Kind() == reflect.Pointer {
		r := defaultRetry()
		r.MaxAttempts = r.Attempts()
		v = reflect.ValueOf(r)
	}
	text, _ := c.text(section, f)
	fmt.Fprintf(b, "## %s\n\n%s\n\n", path, text)
	var inner strings.Builder
	for _, g := range fieldsOf(t) {
		_, nested := structOf(g.typ)
		to := b
		if nested {
			to = &inner // sections within it come after its own keys
		}
		c.docSection(to, t, g, v.Field(g.index), joinPath(path, g.name))
	}
	b.WriteString(inner.String())
}

func (c comments) docKey(b *strings.Builder, section reflect.Type, f field, v reflect.Value, path string) {
	text, _ := c.text(section, f)
	fmt.Fprintf(b, "### %s\n\n%s\n\n", path, text)
	fmt.Fprintf(b, "Takes %s. Default `%s`", takes(f), written(v, f))
	if !strings.Contains(path, "[]") {
		fmt.Fprintf(b, ", environment `%s`", envName(path))
	}
	b.WriteString(".\n\n")
}

func written(v reflect.Value, f field) string {
	if v.Kind() == reflect.Slice {
		return scalars(v)
	}
	return scalar(v, f)
}

func takes(f field) string {
	t, list := f.typ, ""
	if t.Kind() == reflect.Slice {
		t, list = t.Elem(), "a list of "
	}
	kind := map[reflect.Kind]string{
		reflect.String: "text", reflect.Bool: "`true` or `false`", reflect.Int: "a whole number", reflect.Float64: "a number",
	}[t.Kind()]
	switch {
	case t == durationType:
		kind = "a duration"
	case t == bytesType:
		kind = "a size"
	case f.oneOf != "":
		kind = "`" + strings.Join(strings.Fields(f.oneOf), "`, `") + "`"
	}
	if f.limits != "" {
		kind += ", " + wantRange(f)
	}
	if f.optional {
		kind += ", or nothing"
	}
	if list != "" {
		kind = strings.Replace(strings.TrimPrefix(kind, "a "), "duration", "durations", 1)
	}
	return list + kind
}

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	c := readComments(t)
	for name, want := range map[string]string{defaultFile: c.defaultYAML(), docsFile: c.docs()} {
		if *update {
			require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
		}
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is out of date: run make generate", name)
	}
}

// Every key has a comment of its own that begins with its name, ends a sentence, and
// claims the default that is in force.
func TestEveryKeyIsDescribedWithItsRealDefault(t *testing.T) {
	t.Parallel()
	c := readComments(t)
	source := defaultSource()
	retry := defaultRetry()
	retry.MaxAttempts = retry.Attempts()
	sections := []reflect.Value{valueOf(Default()), reflect.ValueOf(source), reflect.ValueOf(source.Targets), reflect.ValueOf(retry)}
	for len(sections) > 0 {
		v := sections[0]
		sections = sections[1:]
		for _, f := range fieldsOf(v.Type()) {
			text, claimed := c.text(v.Type(), f)
			name := v.Type().Name() + "." + f.name
			require.True(t, strings.HasPrefix(text, f.name+" "), "%s: %s", name, text)
			require.True(t, strings.HasSuffix(text, "."), "%s: %s", name, text)
			require.GreaterOrEqual(t, len(text), 30, name)
			if s, ok := structOf(f.typ); ok {
				if f.typ == s && s != reflect.TypeFor[TargetRules]() {
					sections = append(sections, v.Field(f.index))
				}
				continue
			}
			if _, ok := objectsOf(f.typ); ok {
				continue
			}
			require.Equal(t, claimedDefault(v.Field(f.index), f), claimed, name)
		}
	}
}

func claimedDefault(v reflect.Value, f field) string {
	switch s := written(v, f); s {
	case "[]":
		return "none"
	case `""`:
		return "empty"
	default:
		return strings.Trim(s, `"`)
	}
}

func TestRangesAndChoicesOfAllFieldsCanBeRead(t *testing.T) {
	t.Parallel()
	types := []reflect.Type{configType}
	for len(types) > 0 {
		section := types[0]
		types = types[1:]
		for _, f := range fieldsOf(section) {
			if s, ok := structOf(f.typ); ok {
				types = append(types, s)
			} else if s, ok := objectsOf(f.typ); ok {
				types = append(types, s)
			}
			if f.limits != "" {
				low, high := limitsOf(f)
				require.NotEqual(t, low.Interface(), high.Interface(), f.name)
			}
		}
	}
}
