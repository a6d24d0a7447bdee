package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/preflight"
)

func TestCheckFailsWhereSomethingFailsAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	brokers := broker(t, "orders-delay") // and no dead-letter topic

	r := scheduler(t, "check", "--brokers", brokers)

	require.Equal(t, exitFailure, r.code, r.errOut)
	require.Empty(t, r.errOut)
	lines := strings.Split(r.out, "\n")
	require.Regexp(t, `^RESULT +CHECK +SUBJECT +FOUND$`, lines[0])
	require.Regexp(t, `^fail +dead_letter_topic +orders-dlq +it does not exist`, lines[1])
	require.Contains(t, r.out, "-> create it (scheduler topics create)")
	require.Regexp(t, `\n1 fail, \d+ warn, \d+ unknown, \d+ pass\n$`, r.out)
	for _, line := range lines {
		require.LessOrEqual(t, len(line), defaultWidth, line)
	}

	findings := parse[[]preflight.Finding](t, scheduler(t, "check", "--brokers", brokers, "-o", "json"))
	require.Equal(t, preflight.Fail, findings[0].Severity)
	require.Equal(t, preflight.IDDeadLetter, findings[0].ID)
	require.Equal(t, exitFailure, scheduler(t, "check", "--brokers", brokers, "-o", "json").code)
}

func TestWarningsFailOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	args := []string{"check", "--brokers", broker(t, "orders-delay", "orders-dlq")}

	r := requireOK(t, scheduler(t, args...))
	strict := scheduler(t, append(args, "--strict")...)

	require.Contains(t, r.out, "warn")
	require.Equal(t, exitFailure, strict.code)
	require.Contains(t, r.out, "subjects")
	require.NotContains(t, scheduler(t, append(args, "--all")...).out, "subjects")
}

func TestCheckOfNoBrokerIsAFailure(t *testing.T) {
	t.Parallel()
	r := scheduler(t, "check", "--brokers", "127.0.0.1:1")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.out, "no broker answers")
	require.Equal(t, exitUsage, scheduler(t, "check", "-o", "yaml").code)
	require.Equal(t, exitUsage, scheduler(t, "check", "extra").code)
	require.Equal(t, exitUsage, scheduler(t, "check", "-c", "/no/such/file").code)
}

func TestTextIsBrokenBetweenWordsAndWordsStayWhole(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"one two", "three"}, breakText("one two  three", 7))
	require.Equal(t, []string{"a", "retention.ms=1", "b"}, breakText("a retention.ms=1 b", 5))
	require.Equal(t, []string{""}, breakText("", 5))
	var out strings.Builder
	w := newWrapped(&out, "A", "TEXT")
	w.width = func() int { return 1 } // the text gets its least room
	w.row([]string{"first second third fourth fifth sixth seventh", "-> \x1b[2J"}, "ä")
	require.NoError(t, w.flush())
	require.NotContains(t, out.String(), "\x1b")
	require.Equal(t, "A  TEXT\nä  first second third fourth fifth sixth\n   seventh\n   -> \\u001b[2J\n", out.String())
}
