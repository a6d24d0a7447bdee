package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// decoder puts values, as they were written, into a Config that holds the defaults.
type decoder struct{ problems problems }

// section puts the keys of a map into a struct. Unknown keys were reported before.
func (d *decoder) section(values map[string]any, to reflect.Value, path string) {
	for _, f := range fieldsOf(to.Type()) {
		if v, ok := values[f.name]; ok {
			d.value(v, to.Field(f.index), f, joinPath(path, f.name))
		}
	}
}

func (d *decoder) value(v any, to reflect.Value, f field, path string) {
	if to.Kind() == reflect.Pointer {
		r := defaultRetry() // the only section that may be absent
		to.Set(reflect.ValueOf(&r))
		to = to.Elem()
	}
	switch {
	case to.Kind() == reflect.Struct:
		if m, ok := v.(map[string]any); ok {
			d.section(m, to, path)
		}
	case to.Kind() == reflect.Slice:
		d.list(v, to, f, path)
	default:
		d.scalar(fmt.Sprint(v), to, f, path)
	}
}

// list reads a list from a file, or one that the environment or a flag has with commas.
func (d *decoder) list(v any, to reflect.Value, f field, path string) {
	items, ok := v.([]any)
	if _, objects := objectsOf(f.typ); objects {
		if !ok {
			d.problems.add(path, fmt.Sprint(v), "a list of objects can be set in the file only")
			return
		}
		d.sources(items, to, path)
		return
	}
	if !ok {
		for item := range strings.SplitSeq(fmt.Sprint(v), ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
	}
	if len(items) == 0 {
		to.SetZero() // nil, as where nothing is said: there is no difference
		return
	}
	list := reflect.MakeSlice(to.Type(), len(items), len(items))
	for i, item := range items {
		if item != nil { // nil was reported
			d.scalar(fmt.Sprint(item), list.Index(i), f, path+"["+strconv.Itoa(i)+"]")
		}
	}
	to.Set(list)
}

func (d *decoder) sources(items []any, to reflect.Value, path string) {
	list := make([]Source, len(items))
	for i, item := range items {
		list[i] = defaultSource()
		if m, ok := item.(map[string]any); ok {
			d.section(m, reflect.ValueOf(&list[i]).Elem(), path+"["+strconv.Itoa(i)+"]")
		}
	}
	to.Set(reflect.ValueOf(list))
}

// scalar parses one value. If it cannot, the default stays.
func (d *decoder) scalar(s string, to reflect.Value, f field, path string) {
	var v any
	var err error
	switch to.Type() {
	case durationType:
		v, err = optionalDuration(s, f)
	case bytesType:
		v, err = parseBytes(s)
	case secretType:
		v = Secret(s)
	default:
		v, err = parseBasic(s, to.Kind())
	}
	if err != nil {
		// A secret is never among these: any text is one.
		d.problems.add(path, s, "want "+err.Error())
		return
	}
	to.Set(reflect.ValueOf(v).Convert(to.Type()))
}

// optionalDuration reads a duration that may be empty, if its key says so. Zero is
// what empty stands for inside, so it cannot be written.
func optionalDuration(s string, f field) (time.Duration, error) {
	if f.optional && s == "" {
		return 0, nil
	}
	d, err := parseDuration(s)
	if err == nil && f.optional && d == 0 {
		return 0, fmt.Errorf("%s, or nothing", wantRange(f))
	}
	return d, err
}

func parseBasic(s string, kind reflect.Kind) (any, error) {
	switch kind {
	case reflect.Bool:
		v, err := strconv.ParseBool(s)
		if err != nil {
			return nil, errors.New("true or false")
		}
		return v, nil
	case reflect.Int:
		v, err := strconv.Atoi(s)
		if err != nil {
			return nil, errors.New("a whole number")
		}
		return v, nil
	case reflect.Float64:
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, errors.New("a number")
		}
		return v, nil
	}
	return s, nil
}
