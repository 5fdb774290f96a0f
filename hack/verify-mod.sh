#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Proves that go.mod and go.sum of all modules are tidy.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
for module in . test/chart/helm test/compat/kubernetes/* test/kueue/kueued test/realnode/containerd test/realnode/coredns test/realnode/exampledriver; do
  if ! go -C "${module}" mod tidy -diff; then
    echo "go.mod or go.sum in ${module} is not tidy: run go mod tidy there and commit the result." >&2
    exit 1
  fi
done
echo "go.mod and go.sum are tidy."
