#!/usr/bin/env bash
# Runs the product's image, a broker's image and deploy/compose.yaml in Docker. As root on
# Debian it needs nothing prepared: it installs the engine, starts it if none runs, builds
# a base image, a broker's image and ours, runs the tests, and stops what it started. No
# registry is asked. Images are kept for the next run, in the user's cache.
#
#   KAFKA_IMAGE=apache/kafka:4.1.1   take that image instead of building one
#   KAFKA_VERSION=3.9.1              the version of Kafka in the image that is built
#
# Arguments go to go test.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
root=$(cd ../.. && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/delay-scheduler
suite=bookworm
# The newest that there is an official image of as well; 3.7 is the oldest with this set-up.
kafka_version=${KAFKA_VERSION:-4.1.1}
mkdir -p "$cache"
work=$(mktemp -d)
daemon=

say() { printf '\n-- %s (%s)\n' "$*" "$(date -u +%T)"; }

stop() {
	local code=$?
	if [ -n "$daemon" ]; then
		kill "$daemon" 2>/dev/null || true
		wait "$daemon" 2>/dev/null || true
		# It leaves the name space of the host's network mounted.
		umount "$work"/exec/netns/* 2>/dev/null || true
	fi
	rm -rf "$work" || true
	exit "$code"
}
trap stop EXIT
trap 'exit 130' INT TERM

# need installs the package that brings a command unless it is there.
need() {
	local command=$1 package=$2
	command -v "$command" >/dev/null && return
	if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
		echo "$command is missing, and there is no way to install it here: install $package" >&2
		exit 1
	fi
	say "installing $package"
	[ -n "${updated:-}" ] || apt-get update -qq
	updated=yes
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
}

# engine starts a Docker daemon with a place and a socket of its own, unless one runs.
engine() {
	if docker info >/dev/null 2>&1; then
		echo "using the Docker engine that runs"
		return
	fi
	if [ "$(id -u)" -ne 0 ]; then
		echo "no Docker engine answers, and only root can start one" >&2
		exit 1
	fi
	need iptables iptables
	say "starting dockerd"
	export DOCKER_HOST=unix://$work/docker.sock
	dockerd --host "$DOCKER_HOST" --data-root "$cache/docker" --exec-root "$work/exec" \
		--pidfile "$work/docker.pid" >"$work/dockerd.log" 2>&1 &
	daemon=$!
	for _ in $(seq 300); do
		docker info >/dev/null 2>&1 && return
		kill -0 "$daemon" 2>/dev/null || break
		sleep 0.2
	done
	echo "dockerd does not answer:" >&2
	tail -30 "$work/dockerd.log" >&2
	exit 1
}

has() { docker image inspect "$1" >/dev/null 2>&1; }

base_image() {
	base=delay-scheduler-test/debian:$suite
	has "$base" && return
	need debootstrap debootstrap
	say "base image"
	debootstrap --variant=minbase "$suite" "$work/rootfs" >"$work/debootstrap.log" 2>&1 ||
		{ tail -20 "$work/debootstrap.log" >&2; exit 1; }
	tar -C "$work/rootfs" -c . | docker import - "$base" >/dev/null
	rm -rf "$work/rootfs"
}

kafka_image() {
	if [ -n "${KAFKA_IMAGE:-}" ]; then
		return
	fi
	local inputs
	inputs=$(cd kafka && cat Dockerfile run kafka-topics.sh log4j2.* tools-log4j2.yaml server.properties pom.xml | sha256sum | cut -c1-12)
	export KAFKA_IMAGE=delay-scheduler-test/kafka:$kafka_version-$inputs
	has "$KAFKA_IMAGE" && return
	base_image
	need java openjdk-17-jre-headless
	need mvn maven
	say "image of Kafka $kafka_version"
	cp -r kafka "$work/kafka"
	mvn -q -B -f "$work/kafka/pom.xml" -Dkafka.version="$kafka_version" \
		dependency:copy-dependencies -DoutputDirectory="$work/kafka/libs"
	docker build -q --network host --build-arg BASE="$base" -t "$KAFKA_IMAGE" "$work/kafka" >"$work/build.log" 2>&1 ||
		{ cat "$work/build.log" >&2; exit 1; }
}

need dockerd docker.io
need docker-compose docker-compose
engine
# Its classic builder needs no plugin, which Debian's package does not have.
export DOCKER_BUILDKIT=0
kafka_image
say "our image"
make -s -C "$root" image IMAGE=delay-scheduler-test/scheduler VERSION=test >"$work/image.log" 2>&1 ||
	{ cat "$work/image.log" >&2; exit 1; }
export SCHEDULER_IMAGE=delay-scheduler-test/scheduler:test

say "tests on $KAFKA_IMAGE"
# The library guesses the host wrongly where the machine looks like a container itself, and
# its reaper's image cannot be pulled; the tests take away what they start.
export TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1 TESTCONTAINERS_RYUK_DISABLED=true
cd "$here"
go test -count=1 -timeout 10m "$@" ./...
