package app

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

func TestNothingInJSONReachesTheTerminalAsACommand(t *testing.T) {
	hostile := "\x1b]0;owned\a\x7f\u009b31m\u202egnirts\u200b\U000e0041\nö✓𝄞"
	var b bytes.Buffer
	require.NoError(t, EncodeJSON(&b, Health{Why: hostile, Degraded: []Trouble{{Detail: hostile}}}))

	for _, c := range b.String() {
		require.True(t, c == '\n' || unicode.IsPrint(c), "%U in %q", c, b.String())
	}
	var back Health
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Equal(t, hostile, back.Why, "programs get what there is")
	require.Contains(t, b.String(), "ö✓𝄞")
}
