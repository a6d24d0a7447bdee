package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds what a file may unfold to: aliases could make millions of a few
// lines.
const maxNodes = 100_000

// maxProblems is how many a file's reading reports: the file that has more is no
// configuration.
const maxProblems = 100

// document is a file that has been read: its values as they were written, and where.
type document struct {
	file     string
	values   map[string]any // maps, lists and strings
	lines    map[string]int
	problems problems
	nodes    int
}

// parseDocument reads YAML. What it returns holds known keys only, each with a value
// of the right shape; all others are among its problems. An error says that the text
// is no YAML at all.
func parseDocument(file string, text []byte) (*document, error) {
	d := &document{file: file, values: map[string]any{}, lines: map[string]int{}}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var root yaml.Node
	err := dec.Decode(&root)
	if errors.Is(err, io.EOF) {
		return d, nil // nothing but comments
	}
	if err == nil {
		if err = dec.Decode(new(yaml.Node)); err == nil {
			err = errors.New("there is more than one document")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if v, ok := d.section(root.Content[0], configType, ""); ok {
		d.values = v
	}
	if d.nodes > maxNodes {
		return nil, fmt.Errorf("read %s: it unfolds to more than %d values", file, maxNodes)
	}
	return d, nil
}

// resolve follows an alias, notes the line, and says whether there is a value.
func (d *document) resolve(n *yaml.Node, path string) (*yaml.Node, bool) {
	d.lines[path] = n.Line
	d.nodes++
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n, n != nil && n.Tag != "!!null" && d.nodes <= maxNodes
}

// value reads a node as the type of its key asks for. False: there is nothing, or
// what there is has been reported.
func (d *document) value(n *yaml.Node, t reflect.Type, path string) (any, bool) {
	if s, ok := structOf(t); ok {
		v, ok := d.section(n, s, path)
		return v, ok
	}
	if s, ok := objectsOf(t); ok {
		return d.list(n, path, "a list of objects, each beginning with -", func(item *yaml.Node, p string) (any, bool) {
			v, ok := d.section(item, s, p)
			return v, ok
		})
	}
	if t.Kind() == reflect.Slice && n.Kind != yaml.ScalarNode {
		return d.list(n, path, "a list, such as [a, b]", d.scalar)
	}
	return d.scalar(n, path)
}

// section reads a mapping.
func (d *document) section(n *yaml.Node, t reflect.Type, path string) (map[string]any, bool) {
	n, ok := d.resolve(n, path)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.MappingNode {
		value := n.Value
		if holdsSecret(t) {
			value = "" // it may be one that stands a level too high
		}
		d.report(path, value, "want a mapping of keys to values")
		return nil, false
	}
	values := map[string]any{}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, node := n.Content[i].Value, n.Content[i+1]
		p := joinPath(path, key)
		switch f, known := fieldNamed(t, key); {
		case !known:
			d.lines[p] = n.Content[i].Line
			d.unknown(p)
		case seen[key]:
			d.lines[p] = n.Content[i].Line
			d.report(p, "", "the key is there twice")
		default:
			if v, ok := d.value(node, f.typ, p); ok {
				values[key] = v
			}
		}
		seen[key] = true
	}
	return values, true
}

// list reads a sequence.
func (d *document) list(n *yaml.Node, path, want string, item func(*yaml.Node, string) (any, bool)) (any, bool) {
	n, ok := d.resolve(n, path)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.SequenceNode {
		d.report(path, n.Value, "want "+want)
		return nil, false
	}
	values := make([]any, 0, len(n.Content))
	for i, c := range n.Content {
		p := path + "[" + strconv.Itoa(i) + "]"
		v, ok := item(c, p)
		if !ok {
			d.emptyItem(p) // and keep its place, for the numbers of those behind it
		}
		values = append(values, v)
	}
	return values, true
}

// emptyItem reports an item without a value, unless it was reported for something else.
func (d *document) emptyItem(path string) {
	if n := len(d.problems); n == 0 || d.problems[n-1].Path != path {
		d.report(path, "", "the item is empty")
	}
}

func (d *document) scalar(n *yaml.Node, path string) (any, bool) {
	n, ok := d.resolve(n, path)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.ScalarNode {
		d.report(path, "", "want a single value")
		return nil, false
	}
	return n.Value, true
}

func (d *document) unknown(path string) {
	if len(d.problems) < maxProblems { // the search is not free
		d.report(path, "", unknownKey(path))
	}
}

func (d *document) report(path, value, want string) {
	if len(d.problems) >= maxProblems {
		return
	}
	if path == "" {
		path = "the file"
		d.lines[path] = 1
	}
	d.problems.add(path, value, want)
}

// where names the line of a key, or of the nearest section around it that is there.
func (d *document) where(path string) string {
	for path != "" {
		if line, ok := d.lines[path]; ok {
			return d.file + ":" + strconv.Itoa(line)
		}
		if i := max(strings.LastIndexByte(path, '.'), strings.LastIndexByte(path, '[')); i >= 0 {
			path = path[:i]
			continue
		}
		break
	}
	return ""
}
