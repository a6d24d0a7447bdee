package main

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"delay-scheduler/delay"
)

// headerFlags collect --header and --header-binary in the order in which they are
// given: of a repeated name the last counts.
type headerFlags struct{ given []headerFlag }

type headerFlag struct {
	text   string
	binary bool
}

// headerValue is one of the two flags.
type headerValue struct {
	to     *headerFlags
	binary bool
}

// Set implements pflag.Value.
func (v headerValue) Set(s string) error {
	v.to.given = append(v.to.given, headerFlag{s, v.binary})
	return nil
}

// Type implements pflag.Value.
func (v headerValue) Type() string {
	if v.binary {
		return "k=HEX"
	}
	return "k=v"
}

// String implements pflag.Value.
func (v headerValue) String() string { return "" }

func (h *headerFlags) add(c *cobra.Command) {
	c.Flags().Var(headerValue{h, false}, "header", "a header with a text; k alone has a null value; may be repeated")
	c.Flags().Var(headerValue{h, true}, "header-binary", "a header with bytes in hexadecimal; may be repeated")
}

func (h *headerFlags) parse() ([]delay.Header, error) {
	var headers []delay.Header
	for _, f := range h.given {
		key, value, has := strings.Cut(f.text, "=")
		switch {
		case f.binary:
			b, err := hex.DecodeString(strings.TrimPrefix(value, "0x"))
			if err != nil || !has || key == "" {
				return nil, fmt.Errorf("--header-binary is %q, must be k=HEX, such as delay-ms=00000000000007d0", f.text)
			}
			headers = append(headers, delay.Header{Key: []byte(key), Value: b})
		case key == "":
			return nil, fmt.Errorf("--header is %q, must be k=v", f.text)
		case !has:
			headers = append(headers, delay.Header{Key: []byte(key)})
		default:
			headers = append(headers, delay.Header{Key: []byte(key), Value: []byte(value)})
		}
	}
	return headers, nil
}

func hasHeader(headers []delay.Header, names ...string) bool {
	for _, h := range headers {
		if slices.Contains(names, string(h.Key)) {
			return true
		}
	}
	return false
}
