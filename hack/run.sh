#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# run.sh ARGUMENTS... builds what a local cluster with the examples needs, and starts it. The first time, the page
# is built and started first: it shows the nodes and their GPUs while the rest is being compiled.

set -o errexit -o nounset -o pipefail

BIN="${BIN:-bin}"
LATER=(localcluster gpu-scheduler gpu-controller)

make_programs() { make --no-print-directory "${@/#/build-}"; }

missing=()
for program in "${LATER[@]}"; do
  [[ -e "${BIN}/${program}" ]] || missing+=("${program}")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  make_programs kubectl-gputask nodeagent "${LATER[@]}"
  exec "${BIN}/localcluster" up --examples "$@"
fi

make_programs localcluster-early kubectl-gputask nodeagent
"${BIN}/localcluster-early" up --examples "$@" &
CLUSTER=$!
# Ctrl-C reaches all of them; a signal to this process is passed on.
trap 'kill "${CLUSTER}" 2>/dev/null || true' TERM HUP
trap : INT
make_programs "${LATER[@]}" || kill "${CLUSTER}"
while kill -0 "${CLUSTER}" 2>/dev/null; do
  STATUS=0
  wait "${CLUSTER}" || STATUS=$?
done
exit "${STATUS}"
