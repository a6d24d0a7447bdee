#!/usr/bin/env bash
# Checks the alert rules with Prometheus' own tool, and runs their unit tests. The tool is
# taken from the machine, or unpacked from Debian's package into .cache without installing a
# server; where neither can be had, it says so and leaves the rules to the Go tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
rules=deploy/prometheus

skip() {
	echo "SKIPPED: promtool on $rules: $*" >&2
	exit 0
}

find_promtool() {
	command -v promtool && return
	local here=.cache/bin/promtool
	if [ ! -x "$here" ]; then
		command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
		local dir
		dir=$(mktemp -d)
		# shellcheck disable=SC2064 # dir is local: it has to be expanded now.
		trap "rm -rf '$dir'" EXIT
		chmod 755 "$dir"
		(
			cd "$dir"
			apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }
		) >&2 || return 1
		dpkg-deb -x "$dir"/prometheus_*.deb "$dir/root" || return 1
		mkdir -p .cache/bin
		install -m 755 "$dir/root/usr/bin/promtool" "$here"
	fi
	"$here" --version >/dev/null 2>&1 || return 1
	echo "$PWD/$here"
}

promtool=$(find_promtool) || skip "not on this machine, and Debian's package prometheus cannot be had here"
"$promtool" check rules "$rules/alerts.yaml"
"$promtool" test rules "$rules/alerts_test.yaml"
