#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Records the session in docs/kubectl-gputask.md again: on a localcluster of its own, with
# the programs in bin/ (make build).

set -o errexit -o nounset -o pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
DOCUMENT="${ROOT}/docs/kubectl-gputask.md"
BIN="${BIN:-${ROOT}/bin}"
WORK="$(mktemp -d)"
SESSION="${WORK}/session.txt"
export KUBECONFIG="${WORK}/cluster/kubeconfig"

"${BIN}/localcluster" up --dir="${WORK}/cluster" --pod-duration=2h \
  --controller-arg=--reschedule-approve-cost=0 >"${WORK}/up.log" 2>&1 &
CLUSTER=$!
trap 'kill "${CLUSTER}" 2>/dev/null; wait "${CLUSTER}" || true; rm -rf "${WORK}"' EXIT
for _ in $(seq 120); do
  grep --quiet "stays up" "${WORK}/up.log" && break
  kill -0 "${CLUSTER}" 2>/dev/null || { cat "${WORK}/up.log" >&2; exit 1; }
  sleep 0.5
done

gputask() { "${BIN}/kubectl-gputask" "$@"; }

# show runs a command and records it with its output.
show() {
  {
    echo "\$ kubectl gputask $*"
    gputask "$@" 2>&1
  } | tee -a "${SESSION}"
}
note() { echo "$@" | tee -a "${SESSION}"; }
blank() { note ""; }

# Two tasks on each node, one of which is deleted again.
LOOP="for i in 1 2 3 4 5 6 7 8; do kubectl gputask run job-\$i --gpu h100-80gb-hbm3 --gpu-amount 4 -o name; done"
note "\$ ${LOOP}"
for i in 1 2 3 4 5 6 7 8; do
  gputask run "job-${i}" --gpu h100-80gb-hbm3 --gpu-amount 4 --wait=running >/dev/null
  note "gputask.falldio.com/job-${i}"
done
mapfile -t LEAVE < <(gputask list -o json | python3 -c '
import json, sys
first = {}
for task in json.load(sys.stdin)["items"]:
    first[task["status"]["nodes"][0]] = task["metadata"]["name"]
print("\n".join(sorted(first.values())))')
show delete "${LEAVE[@]}"
blank
show top
blank
show run big --gpu h100-80gb-hbm3 --gpu-amount 8 --replicas 2
sleep 1
show explain big
blank
PLAN=""
for _ in $(seq 60); do
  PLAN="$(gputask plan list -o name 2>/dev/null | head -n 1)"
  [[ -n "${PLAN}" ]] && break
  sleep 0.5
done
[[ -n "${PLAN}" ]] || { echo "the rescheduler proposed no plan" >&2; exit 1; }
PLAN="${PLAN#*/}"
sleep 1
show plan
blank
show plan show "${PLAN}"
blank
show plan approve "${PLAN}"
show plan show "${PLAN}" --watch
sleep 2 # the status of tasks may lag behind a little
blank
show list
blank
show top --metrics=false

python3 - "${DOCUMENT}" "${SESSION}" <<'END'
import re, sys
document, session = open(sys.argv[1]).read(), open(sys.argv[2]).read().rstrip()
begin, end = "<!-- session -->\n", "<!-- end of session -->"
before, _, rest = document.partition(begin)
_, _, after = rest.partition(end)
open(sys.argv[1], "w").write(before + begin + "```console\n" + session + "\n```\n" + end + after)
END
echo "Recorded into ${DOCUMENT}."
