#!/usr/bin/env bash
# failed.sh CMD...: run a command that tests, and if it fails repeat at the very end which
# tests failed and why. What brokers print after a failure is long, and of a long log the
# last lines are what is kept.
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" 2>&1 | tee "$log"
code=${PIPESTATUS[0]}
if [ "$code" -ne 0 ]; then
	printf '\n== what failed\n'
	awk '
		/^[ \t]*--- FAIL/ || /^FAIL/ { show = 1 }
		/^[ \t]*[a-z0-9_]+_test\.go:[0-9]+:/ || /^panic:/ || /DATA RACE/ { show = 12 }
		/^[ \t]*Test:/ || /INFO|the last [0-9]+ lines/ { show = 0 }
		show-- > 0 { print substr($0, 1, 240) }
	' "$log" | tail -80
fi
exit "$code"
