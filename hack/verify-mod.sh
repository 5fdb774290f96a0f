#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Proves that go.mod and go.sum of all modules are tidy, and that those of our own code name the same versions: others
# would be compiled beside the root's.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
for module in . bench test/chart/helm test/compat/kubernetes/* test/dashboard test/kueue/kueued test/monitoring/promtool test/realnode/containerd test/realnode/coredns test/realnode/exampledriver; do
  if ! go -C "${module}" mod tidy -diff; then
    echo "go.mod or go.sum in ${module} is not tidy: run go mod tidy there and commit the result." >&2
    exit 1
  fi
done
for module in bench test/dashboard; do
  differ="$(awk '$2 !~ /^v/ {next} NR == FNR {root[$1] = $2; next} $1 in root && root[$1] != $2 {print $1, $2, "instead of", root[$1]}' go.mod "${module}/go.mod")"
  if [[ -n "${differ}" ]]; then
    echo "${module}/go.mod requires other versions than the root's go.mod: ${differ}" >&2
    exit 1
  fi
done
echo "go.mod and go.sum are tidy."
