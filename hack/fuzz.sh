#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs the fuzz targets one after another, each for FUZZTIME (1m): all of them, or those whose
# "package target" matches the regular expression in the first argument. An input that fails is kept in
# the package's testdata/fuzz, where "make test" runs it from then on; the other targets go on.
#
#   FUZZTIME=10m hack/fuzz.sh 'pkg/(journal|snapshot) '
#   hack/fuzz.sh --list
#
# FUZZWORKERS (1) is how many processes try inputs at the same time, FUZZMEMORY (6) how many GiB
# each may address: a parser that takes all memory ends itself, not the machine.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO="${GO:-go}"
FUZZTIME="${FUZZTIME:-1m}"

# targets prints "package target" for each, as "./pkg/journal FuzzRead".
targets() {
  git grep --untracked --only-matching --extended-regexp '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' |
    sed -E 's#^(.*)/[^/]+_test\.go:func #./\1 #; s#^[^/]+_test\.go:func #. #' | sort
}

if [[ "${1:-}" == --list ]]; then
  targets
  exit
fi

SELECTED="$(targets | grep --extended-regexp -- "${1:-.}" || true)"
if [[ -z "${SELECTED}" ]]; then
  echo "no fuzz target matches ${1}: hack/fuzz.sh --list lists them" >&2
  exit 1
fi

ulimit -v "$((${FUZZMEMORY:-6} * 1024 * 1024))"
LOG="$(mktemp)"
trap 'rm -f "${LOG}"' EXIT
FAILED=()
while read -r package target; do
  begin="${SECONDS}"
  # Few attempts at smaller inputs: each that reaches new code would otherwise take that time.
  if "${GO}" test -vet=off -run '^$' -fuzz "^${target}\$" -fuzztime "${FUZZTIME}" -fuzzminimizetime 50x -parallel "${FUZZWORKERS:-1}" "${package}" >"${LOG}" 2>&1 </dev/null; then
    result=passed
  else
    result=FAILED
    FAILED+=("${package} ${target}")
  fi
  execs="$(grep --only-matching --extended-regexp 'execs: [0-9]+' "${LOG}" | tail -1 || true)"
  echo "${result} ${package} ${target}: $((SECONDS - begin)) s, ${execs:-no execs}"
  if [[ "${result}" == FAILED ]]; then
    grep --invert-match '^fuzz: elapsed' "${LOG}" | head -60 >&2 || true
  fi
done <<<"${SELECTED}"

if [[ "${#FAILED[@]}" -gt 0 ]]; then
  printf '\n%s failed:\n' "${#FAILED[@]}" >&2
  printf '  %s\n' "${FAILED[@]}" >&2
  exit 1
fi
