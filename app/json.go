package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// EncodeJSON writes JSON for people and programs. Whatever a terminal would take for a
// command, or would not show, is escaped; the encoder itself leaves DEL, the C1 controls
// and marks that turn text around as they are.
func EncodeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(Escape(b.Bytes()))
	return err
}

// Escape escapes characters that cannot be printed, but for line breaks and tabs, as
// JSON does. In JSON they can only be in strings.
func Escape(text []byte) []byte {
	hidden := func(c rune) bool { return c != '\n' && c != '\t' && !unicode.IsPrint(c) }
	if bytes.IndexFunc(text, hidden) < 0 {
		return text
	}
	var out bytes.Buffer
	for _, c := range string(text) {
		switch {
		case !hidden(c):
			out.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, c)
		}
	}
	return out.Bytes()
}
