#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Proves that go.mod and go.sum are tidy.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! go mod tidy -diff; then
  echo "go.mod or go.sum is not tidy: run go mod tidy and commit the result." >&2
  exit 1
fi
echo "go.mod and go.sum are tidy."
