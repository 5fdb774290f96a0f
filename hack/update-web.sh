#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the page of "kubectl gputask dashboard" from its TypeScript: web/dist, which is
# committed and becomes a part of the program, so that only who changes the page needs
# Node.js. hack/verify-web.sh checks the result. Set OUTPUT to build another copy of the
# folder.

set -o errexit -o nounset -o pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "${OUTPUT:-${ROOT}/kubectl-gputask/dashboard/web}"

if ! command -v npm >/dev/null; then
  echo "Building the page needs Node.js 20 or later and npm: apt-get install nodejs npm" >&2
  exit 1
fi
# Nothing that is installed may run anything but what is called below.
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
npm run --silent check
npm run --silent build
