#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the version of golangci-lint that go.tools.mod names, built once.

set -o errexit -o nounset -o pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "${ROOT}"
# Without local paths, so that one build serves all module caches; with inlining, as it runs for longer than it
# takes to compile.
(
  eval "$(make --silent --no-print-directory INLINED=yes go-env)"
  GOWORK=off go build -modfile=go.tools.mod -o bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
)
# A cache of its own: findings are cached with the paths of the checkout that
# they were found in, and a shared cache mixes checkouts up.
export GOLANGCI_LINT_CACHE="${ROOT}/bin/golangci-lint-cache"
exec bin/golangci-lint "$@"
