#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Proves that the built page in the tree is what hack/update-web.sh builds, by building it
# in a copy and comparing, and runs the tests of its parts.

set -o errexit -o nounset -o pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
WEB="${ROOT}/kubectl-gputask/dashboard/web"
COPY="$(mktemp -d)"
trap 'rm -rf "${COPY}"' EXIT

tar --directory "${WEB}" --exclude ./node_modules --exclude ./dist --create . | tar --directory "${COPY}" --extract
OUTPUT="${COPY}" "${ROOT}/hack/update-web.sh"
npm --prefix "${COPY}" run --silent test
if ! diff --recursive --brief "${WEB}/dist" "${COPY}/dist"; then
  echo "The built page is out of date: run make web and commit the result." >&2
  exit 1
fi
echo "The built page is up to date."
