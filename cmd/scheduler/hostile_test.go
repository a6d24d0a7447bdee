package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"delay-scheduler/app"
	"delay-scheduler/config"
)

// hostile is what a stranger may put wherever text goes.
const hostile = "\x1b]0;owned\a\x1b[2J\r\n\x00\x7f\u009b31m\u202egnirts\u200b\tx"

// requirePlain says that a terminal shows all of it and obeys none of it.
func requirePlain(t *testing.T, text string) {
	t.Helper()
	for _, c := range text {
		require.True(t, c == '\n' || unicode.IsPrint(c), "%U in %q", c, text)
	}
}

func TestTablesAreOfOneLineARowWhateverTheCellsHold(t *testing.T) {
	var b bytes.Buffer
	long := strings.Repeat("\x1b", 1<<20)
	require.NoError(t, printTable(&b, []string{"A", "B"}, [][]string{{hostile, "b"}, {long, "\xff\xfe"}}))

	requirePlain(t, b.String())
	require.Equal(t, 3, strings.Count(b.String(), "\n"))
	require.Less(t, b.Len(), 4*maxCell*len(`\u001b`))
}

func TestExplainShowsHostileHeadersPlainly(t *testing.T) {
	for _, name := range []string{"target-topic", "delay-ms", "deliver-at", "next-retry-time", "retry-count", "origin-time", "delay-id", "delay-hops"} {
		for _, topic := range []string{"orders-delay", "orders-retry"} {
			args := []string{"explain", "--topic", topic, "--header-binary", name + "=" + hex.EncodeToString([]byte(hostile))}
			for _, output := range []string{"table", "json"} {
				r := scheduler(t, append(args, "-o", output)...)
				require.NotEqual(t, exitUsage, r.code, r.errOut)
				requirePlain(t, r.out)
				requirePlain(t, r.errOut)
			}
		}
	}
}

func TestDeadLettersOfStrangersAreShownPlainly(t *testing.T) {
	at := time.Now()
	sent := app.SendResult{Written: 1, Trouble: hostile, Missing: 1, Target: "orders", Records: []app.Sent{{
		ID: "orders-delay/0/1/2", Arrival: &app.Arrival{Topic: "orders-dlq", At: at, Refused: &app.Refused{Reason: hostile, Detail: strings.Repeat(hostile, 1000)}},
	}}}
	for _, output := range []string{"table", "json"} {
		var b bytes.Buffer
		require.NoError(t, printSend(&b, sent, app.SendOptions{Wait: true}, output))
		requirePlain(t, b.String())
	}
}

func TestOffsetsAndHealthOfStrangersAreShownPlainly(t *testing.T) {
	p := app.PartitionOffsets{Topic: "orders-delay", Problem: hostile, Encoding: hostile, PendingExceptions: 1}
	var b bytes.Buffer
	require.NoError(t, printOffsets(&b, config.Default(), []app.PartitionOffsets{p}, time.Now()))
	requirePlain(t, b.String())

	answer := fmt.Sprintf(`{"ready": true, "degraded_parts": 1, "degraded": [{"reason": %q, "subject": %q, "detail": %q}]}`, "x", `\x1b[2J`, "a")
	answer = strings.ReplaceAll(answer, `\\x1b`, `\u001b`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
	defer server.Close()
	for _, output := range []string{"table", "json"} {
		r := requireOK(t, scheduler(t, "health", "--url", server.URL, "-o", output))
		requirePlain(t, r.out)
		require.Contains(t, r.out, `\u001b[2J`)
	}
}

func TestLogsAreOfOneLineAnEntryWhateverTheFieldsHold(t *testing.T) {
	for _, format := range []string{"json", "console"} {
		var b bytes.Buffer
		c := config.Default()
		c.Log.Format = format
		log, err := newLogger(c, &b)
		require.NoError(t, err)

		log.Named("health").Warn("degraded", zap.String("detail", hostile), zap.Error(errors.New(hostile)), zap.Any("any", []string{hostile}))

		requirePlain(t, strings.ReplaceAll(b.String(), "\t", " "))
		require.Equal(t, 1, strings.Count(b.String(), "\n"), format)
	}
}

func TestErrorsAreShownPlainly(t *testing.T) {
	r := scheduler(t, "run", "--set", "log.level="+hostile, "--brokers", hostile)

	require.Equal(t, exitUsage, r.code)
	requirePlain(t, r.errOut)
	r = scheduler(t, "explain", hostile+"/0/0", "--brokers", "127.0.0.1:1")
	requirePlain(t, r.errOut)
}
