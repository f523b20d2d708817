# innerd in a container. See docs/images.md.
#
#   docker build --target runtime -t innerd .          innerd and what agents' shells need
#   docker build --target minimal -t innerd:minimal .  innerd alone, to copy from
#   docker build --target agents  -t innerd:agents .   with Claude Code, Codex and Copilot
#
# The agents are their vendors': build that image for yourself, and do not
# publish it. Nothing here needs BuildKit; with it, only what a target needs is
# built.
ARG GO_IMAGE=golang:1.26-bookworm
ARG NODE_IMAGE=node:20-bookworm-slim
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
ARG TARGETOS
ARG TARGETARCH
# GOTOOLCHAIN: what go.mod names, whose library CI looks through for known
# vulnerabilities, and not what the image happens to have.
# Then the largest of what it is built from, so that a change of ours builds soon.
ENV GOTOOLCHAIN=auto CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOOS=${TARGETOS} GOARCH=${TARGETARCH}
RUN go mod download && go build -trimpath -tags nomsgpack \
    github.com/gin-gonic/gin google.golang.org/grpc github.com/a2aproject/a2a-go/v2/a2agrpc/v1 github.com/invopop/jsonschema \
    github.com/santhosh-tekuri/jsonschema/v6 github.com/spf13/cobra github.com/modelcontextprotocol/go-sdk/mcp
COPY . .
ARG VERSION=dev
# The same source, version and platform give the same bytes.
RUN go build -trimpath -tags nomsgpack -ldflags "-s -w -X main.version=${VERSION}" -o /out/innerd ./cmd/innerd \
    && sh image/sbom.sh /out/innerd "${VERSION}" >/out/innerd.cdx.json

# innerd and what the shell of any agent is expected to have.
FROM ${BASE_IMAGE} AS runtime
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git ripgrep \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log /var/cache/ldconfig/aux-cache \
    && groupadd --gid 18100 innerd && useradd --uid 18100 --gid 18100 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin innerd \
    && groupadd --gid 18101 agent && useradd --uid 18101 --gid 18101 --no-create-home --home-dir /var/lib/innerd-agents/home --shell /bin/bash agent \
    && install -d -o innerd -g innerd -m 700 /var/lib/innerd \
    && install -d -o agent -g agent -m 2770 /var/lib/innerd-agents \
    && install -d -o agent -g agent -m 755 /workspace
COPY --from=build /out/innerd /usr/local/bin/innerd
COPY --from=build /out/innerd.cdx.json /usr/share/innerd/innerd.cdx.json
ENV INNERD_STATE_DIR=/var/lib/innerd INNERD_AGENT_HOME=/var/lib/innerd-agents
WORKDIR /workspace
EXPOSE 18100
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["innerd", "health"]
ENTRYPOINT ["innerd", "init"]
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="innerd" \
      org.opencontainers.image.description="Lends the inner loop of an agent to a coding agent in this sandbox" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"

# innerd alone, for those who copy it into an image of their own.
FROM scratch AS minimal
COPY --from=build /out/innerd /innerd
ENV INNERD_STATE_DIR=/var/lib/innerd INNERD_AGENT_HOME=/var/lib/innerd-agents
EXPOSE 18100
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["/innerd", "health"]
ENTRYPOINT ["/innerd", "init"]
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="innerd" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"

# The pinned agents, checked against image/agents.list and unpacked.
FROM ${NODE_IMAGE} AS fetch
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libstdc++6 && rm -rf /var/lib/apt/lists/*
COPY image/agents.list image/install-agents.sh image/sbom-agents.sh /image/
ENV INNERD_AGENTS_DIR=/opt/innerd/agents
RUN sh /image/install-agents.sh && sh /image/sbom-agents.sh >/opt/innerd/agents.cdx.json \
    && find /opt/innerd/agents -type d -name voice -prune -exec rm -rf {} + \
    && chmod -R a+rX,go-w /opt/innerd/agents && rm -rf /root/.npm

FROM runtime AS agents
RUN apt-get update && apt-get install -y --no-install-recommends libstdc++6 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log /var/cache/ldconfig/aux-cache
COPY --from=fetch /opt/innerd/agents /opt/innerd/agents
COPY --from=fetch /opt/innerd/agents.cdx.json /usr/share/innerd/agents.cdx.json
ENV INNERD_AGENTS_DIR=/opt/innerd/agents

FROM runtime
