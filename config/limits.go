package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// checkLimits checks every field of a section against its tags range and oneof.
func (p *problems) checkLimits(v reflect.Value, path string) {
	for _, f := range fieldsOf(v.Type()) {
		fv, fp := v.Field(f.index), joinPath(path, f.name)
		if fv.Kind() == reflect.Pointer {
			if fv.IsNil() {
				continue
			}
			fv = fv.Elem()
		}
		switch {
		case fv.Kind() == reflect.Struct:
			p.checkLimits(fv, fp)
		case fv.Kind() == reflect.Slice:
			p.checkItems(fv, f, fp)
		default:
			p.checkValue(fv, f, fp)
		}
	}
}

func (p *problems) checkItems(list reflect.Value, f field, path string) {
	_, objects := objectsOf(f.typ)
	for i := range list.Len() {
		ip := path + "[" + strconv.Itoa(i) + "]"
		if objects {
			p.checkLimits(list.Index(i), ip)
		} else {
			p.checkValue(list.Index(i), f, ip)
		}
	}
}

func (p *problems) checkValue(v reflect.Value, f field, path string) {
	switch {
	case f.oneOf != "":
		for choice := range strings.FieldsSeq(f.oneOf) {
			if v.String() == choice {
				return
			}
		}
		p.add(path, v.String(), "want "+wantOneOf(f))
	case f.limits != "" && !(f.optional && v.IsZero()) && !withinLimits(v, f):
		p.add(path, format(v), "want "+wantRange(f))
	}
}

// withinLimits is false for a number that is none.
func withinLimits(v reflect.Value, f field) bool {
	low, high := limitsOf(f)
	if v.Kind() == reflect.Float64 {
		return v.Float() >= low.Float() && v.Float() <= high.Float()
	}
	return v.Int() >= low.Int() && v.Int() <= high.Int()
}

// limitsOf parses the tag. That it can be parsed is tested for all of them.
func limitsOf(f field) (low, high reflect.Value) {
	from, to, _ := strings.Cut(f.limits, "..")
	return limit(from, f), limit(to, f)
}

func limit(s string, f field) reflect.Value {
	t := f.typ
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	v := reflect.New(t).Elem()
	var d decoder
	d.scalar(s, v, field{}, "")
	if len(d.problems) > 0 {
		panic(fmt.Sprintf("the range %s of %s cannot be read", f.limits, f.name))
	}
	return v
}

func wantRange(f field) string {
	low, high, _ := strings.Cut(f.limits, "..")
	return low + " to " + high
}

func wantOneOf(f field) string {
	choices := strings.Fields(f.oneOf)
	last := len(choices) - 1
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

// format writes a value as it would stand in a file, without quotes.
func format(v reflect.Value) string {
	switch v.Type() {
	case durationType:
		return formatDuration(time.Duration(v.Int()))
	case bytesType, secretType:
		return v.Interface().(fmt.Stringer).String()
	}
	return fmt.Sprint(v.Interface())
}
