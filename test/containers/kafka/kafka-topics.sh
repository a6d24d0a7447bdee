#!/usr/bin/env bash
exec java -Xmx128m -XX:+UseSerialGC -Dlog4j2.configurationFile=/etc/kafka/docker/log4j2.xml \
	-cp '/opt/kafka/libs/*' org.apache.kafka.tools.TopicCommand "$@"
