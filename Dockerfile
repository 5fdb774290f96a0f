# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# The image of gpu-controller: one static program, no shell, no root.
#   docker build --build-arg VERSION=$(git describe --tags --always) -t gpu-controller .

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY *.go ./
COPY accounting accounting
COPY admissioncheck admissioncheck
COPY pkg pkg
COPY queues queues
COPY remediation remediation
COPY rescheduler rescheduler
COPY workloads workloads
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -o /gpu-controller \
    -ldflags "-s -w -X main.version=$VERSION" .

FROM scratch
COPY --from=build /gpu-controller /gpu-controller
USER 65532:65532
ENTRYPOINT ["/gpu-controller"]
