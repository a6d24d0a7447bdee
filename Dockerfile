# The image of the scheduler: one static binary and nothing else. `make image` builds the
# binary (bin/image/scheduler) and then this; nothing is pulled from a registry. The CA
# certificates and time zones that scratch lacks are in the binary. Nothing is written to
# disk, so it runs with a read-only root, and it needs no capability.
FROM scratch

ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="delay-scheduler" \
      org.opencontainers.image.description="Delivers Kafka records later" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

COPY bin/image/scheduler /usr/local/bin/scheduler

# PATH is for `docker exec CONTAINER scheduler health`. The default address of HTTP is the
# loopback, which nobody outside a container reaches.
ENV PATH=/usr/local/bin \
    SCHEDULER_HTTP_LISTEN=0.0.0.0:8080

# A number, not a name: scratch has no /etc/passwd, and Kubernetes can check runAsNonRoot
# only of a number.
USER 65532:65532
EXPOSE 8080

# It asks 127.0.0.1:8080. Whoever sets another port replaces it: --health-cmd, or --no-healthcheck.
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/scheduler", "health"]

ENTRYPOINT ["/usr/local/bin/scheduler"]
# Without a file: `docker run IMAGE run`, and every key by environment (SCHEDULER_KAFKA_BROKERS).
CMD ["run", "-c", "/etc/delay-scheduler/scheduler.yaml"]
