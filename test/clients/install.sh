#!/usr/bin/env bash
# Installs the clients that the examples are run with: packages of Debian where a command
# is missing, everything else into .cache/clients. What is there is left alone, so a second
# run takes no time.
set -euo pipefail
cd "$(dirname "$0")/../.."

confluent_kafka=2.14.2
kafkajs=2.2.4

# need installs the packages that bring a command unless it is there.
need() {
	local command=$1
	shift
	if command -v "$command" >/dev/null; then
		return
	fi
	if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
		echo "$command is missing, and there is no way to install it here: install $*" >&2
		exit 1
	fi
	echo "installing $*"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

need kcat kcat
need javac openjdk-17-jdk-headless # a JRE cannot run a source file
need mvn maven
need node nodejs
need npm npm
need python3 python3 python3-venv

# A directory is named after what is in it; the file in it says that nothing is missing.
cache=.cache/clients
mkdir -p "$cache"
venv=$cache/venv-$confluent_kafka
if [ ! -e "$venv/complete" ]; then
	echo "installing confluent-kafka $confluent_kafka into $venv"
	python3 -c 'import ensurepip' 2>/dev/null || need python3-venv python3-venv
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install -q --disable-pip-version-check "confluent-kafka==$confluent_kafka"
	touch "$venv/complete"
fi
node=$cache/node-$kafkajs
if [ ! -e "$node/complete" ]; then
	echo "installing kafkajs $kafkajs into $node"
	rm -rf "$node"
	npm install --silent --no-audit --no-fund --prefix "$node" "kafkajs@$kafkajs"
	touch "$node/complete"
fi
# The names that the tests know.
ln -sfn "venv-$confluent_kafka" "$cache/venv"
ln -sfn "node-$kafkajs" "$cache/node"
