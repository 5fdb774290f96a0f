#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# compile.sh NAME WHAT ARGUMENTS... runs "go build" and reports what it is building, and
# for how long, unless it is done in a moment. WHAT is printed beside the program's NAME.

set -o errexit -o nounset -o pipefail

NAME="$1" WHAT="$2"
shift 2

say() { printf '%-16s %s\n' "${NAME}" "$*" >&2; }

# took prints the elapsed time: "1m05s".
took() { printf '%dm%02ds' $((SECONDS / 60)) $((SECONDS % 60)); }

# A new program appears as a whole, because hack/run.sh starts it as soon as it is there. One that is there
# already is given to "go build", which then has nothing to do if it is up to date.
ARGUMENTS=("$@") PROGRAM=""
for ((i = 1; i < $#; i++)); do
  if [[ "${ARGUMENTS[i - 1]}" == -o && ! -e "${ARGUMENTS[i]}" ]]; then
    PROGRAM="${ARGUMENTS[i]}"
    ARGUMENTS[i]="${PROGRAM}.new"
  fi
done
"${GO:-go}" build "${ARGUMENTS[@]}" &
BUILD=$!
trap 'kill "${BUILD}" 2>/dev/null || true' INT TERM
SAID=0
while kill -0 "${BUILD}" 2>/dev/null; do
  if ((SECONDS >= 2 && SAID == 0)); then
    say "compiling${WHAT:+: ${WHAT}}"
    SAID=1
  elif ((SECONDS >= 30 * SAID && SAID > 0)); then
    say "still compiling after $(took)"
    SAID=$((SAID + 1))
  fi
  sleep 0.2
done
wait "${BUILD}" || { say "could not be built" && exit 1; }
[[ -z "${PROGRAM}" ]] || mv "${PROGRAM}.new" "${PROGRAM}"
if ((SAID > 0)); then
  say "built in $(took)"
fi
