#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Proves that the generated files in the tree are what hack/update-codegen.sh
# generates, by generating them in a copy of the tree and comparing.

set -o errexit -o nounset -o pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
COPY="$(mktemp -d)"
trap 'rm -rf "${COPY}"' EXIT

cd "${ROOT}"
cp -r go.mod go.sum hack pkg artifacts charts "${COPY}/"
OUTPUT="${COPY}" hack/update-codegen.sh

if ! diff --recursive --unified "${ROOT}/pkg" "${COPY}/pkg" ||
  ! diff --recursive --unified "${ROOT}/artifacts/crds" "${COPY}/artifacts/crds" ||
  ! diff --recursive --unified --no-dereference "${ROOT}/charts" "${COPY}/charts" ||
  ! diff --unified "${ROOT}/docs/reference/kubectl-gputask.md" "${COPY}/docs/reference/kubectl-gputask.md"; then
  echo "Generated files are out of date: run hack/update-codegen.sh and commit the result." >&2
  exit 1
fi
echo "Generated files are up to date."
