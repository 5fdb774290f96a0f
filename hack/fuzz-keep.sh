#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# After "make fuzz": keeps the inputs that are worth it in the packages' testdata/fuzz, where "make
# test" runs them, too. Those are the inputs in the cache of "go test" that reach code of ours that
# neither the seeds nor a smaller input reaches: at most 24 for each target, each of at most 4 KiB.
#
#   hack/fuzz-keep.sh 'pkg/(journal|snapshot) '
#
# The first argument selects targets as for hack/fuzz.sh.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO="${GO:-go}"
MODULE="$("${GO}" list -m)"
CACHE="$("${GO}" env GOCACHE)/fuzz/${MODULE}"
readonly MOST=24 LARGEST=4096
COPY="$(mktemp -d)"
trap 'rm -rf "${COPY}"' EXIT

# reached PROFILE prints the blocks that a run has reached.
reached() { awk 'NR > 1 && $NF > 0 { print $1 }' "$1" | sort -u; }

while read -r package target; do
  from="${CACHE}/${package#./}/${target}"
  [[ -d "${from}" ]] || continue
  "${GO}" test -c -vet=off -cover -coverpkg "${MODULE}/..." -o "${COPY}/test" "${package}" 2>/dev/null
  to="${package}/testdata/fuzz/${target}"
  (cd "${package}" && "${COPY}/test" -test.run "^${target}\$" -test.coverprofile "${COPY}/profile" >/dev/null)
  reached "${COPY}/profile" >"${COPY}/known"
  kept=0
  mkdir -p "${to}"
  while read -r input; do
    [[ "${kept}" -lt "${MOST}" ]] || break
    name="$(basename "${input}")"
    [[ ! -e "${to}/${name}" ]] || continue
    cp "${input}" "${to}/${name}"
    if (cd "${package}" && "${COPY}/test" -test.run "^${target}\$/^${name}\$" -test.coverprofile "${COPY}/profile" >/dev/null 2>&1); then
      reached "${COPY}/profile" >"${COPY}/now"
      if [[ -n "$(comm -13 "${COPY}/known" "${COPY}/now")" ]]; then
        sort -u -o "${COPY}/known" "${COPY}/known" "${COPY}/now"
        kept=$((kept + 1))
        continue
      fi
    fi
    rm "${to}/${name}"
  done < <(find "${from}" -type f -size "-$((LARGEST + 1))c" -printf '%s %p\n' | sort --numeric-sort | cut --delimiter ' ' --fields 2)
  rmdir --ignore-fail-on-non-empty --parents "${to}" 2>/dev/null || true
  echo "${package} ${target}: ${kept} inputs are kept"
done < <(hack/fuzz.sh --list | grep --extended-regexp -- "${1:-.}")
