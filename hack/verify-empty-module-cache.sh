#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Proves that the controller, the generators and the tools build on a machine that has
# downloaded nothing so far: with a separate, empty module cache. Modules that are in the
# machine's own module cache are copied from there instead of being downloaded.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
DOWNLOADED="$(go env GOMODCACHE)/cache/download"
GOPROXY="file://${DOWNLOADED},$(go env GOPROXY)"
GOMODCACHE="$(mktemp -d)"
# Otherwise the files of a module cache can't be deleted.
GOFLAGS="-modcacherw $(go env GOFLAGS)"
export GOPROXY GOMODCACHE GOFLAGS
trap 'rm -rf "${GOMODCACHE}"' EXIT

go build -o "${GOMODCACHE}/gpu-controller" .
hack/verify-codegen.sh
hack/verify-mod.sh
hack/golangci-lint.sh version
echo "Everything builds with an empty module cache."
