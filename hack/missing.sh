#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# missing.sh lists what this machine lacks for running all tests: for each, the tests that are skipped without it and
# the Debian package that has it. With --packages it lists the packages only, also those without which nothing is built.

set -o errexit -o nounset -o pipefail

PACKAGES=() SKIPPED=()

# lacks PACKAGE WHAT notes a package that is missing, and what is skipped without it.
lacks() {
  PACKAGES+=("$1")
  [[ -z "$2" ]] || SKIPPED+=("$2 (apt-get install $1)")
}
# program PACKAGE NAME [WHAT] and file PACKAGE PATH [WHAT] look for what a package has.
program() { PATH="${PATH}:/usr/sbin:/sbin" command -v "$2" >/dev/null || lacks "$1" "${3:-}"; }
file() { [[ -e "$2" ]] || lacks "$1" "${3:-}"; }

NODE="tests on a real node: test/realnode, test/release"
program make make
program gcc gcc
file libc6-dev /usr/include/stdio.h
program git git "upgrades from the commit before: test/upgrade"
program runc runc "${NODE}"
program iproute2 ip "${NODE}"
file containernetworking-plugins /usr/lib/cni/bridge "network of Pods on a real node: test/realnode"
program chromium chromium "the page in a browser: test/dashboard"
program npm npm "the page's accessibility: test/dashboard"

if [[ "${1:-}" == --packages ]]; then
  ((${#PACKAGES[@]} == 0)) || printf '%s\n' "${PACKAGES[@]}"
  exit
fi
[[ "$(id -u)" == 0 ]] || SKIPPED+=("${NODE} (run as root)")
if ((${#SKIPPED[@]} == 0)); then
  echo "This machine has what all tests need."
else
  echo "Skipped on this machine:"
  printf '  %s\n' "${SKIPPED[@]}" | sort
fi
