#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the version of golangci-lint that go.tools.mod names, built once.

set -o errexit -o nounset -o pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "${ROOT}"
go build -modfile=go.tools.mod -o bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
exec bin/golangci-lint "$@"
