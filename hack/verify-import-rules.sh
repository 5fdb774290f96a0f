#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Proves that the linter refuses what the import rules of .golangci.yml forbid: one
# violation of each rule, in a copy of the tree.

set -o errexit -o nounset -o pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
MODULE=falldio.github.io/gpu-controller
cd "${ROOT}"
hack/golangci-lint.sh version
COPY="$(mktemp -d)"
trap 'rm -rf "${COPY}"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --no-dereference --parents --target-directory="${COPY}"
cd "${COPY}"

EXPECTED=()
PACKAGES=()

# violation RULE FOLDER IMPORT adds a file to FOLDER that breaks RULE.
violation() {
  local rule="$1" folder="$2" import="$3"
  mkdir -p "${folder}"
  printf 'package %s\n\nimport _ "%s"\n' "${4:-violation}" "${import}" >"${folder}/violation_${rule}.go"
  EXPECTED+=("${folder}/violation_${rule}.go:3:8: import '${import}' is not allowed from list '${rule}'")
  PACKAGES+=("./${folder}")
}

# In a package of its own the violation creates no import cycle, which go would report first.
violation apis pkg/apis/violation "${MODULE}/pkg/placement"
for engine in nodeagent/kubelet/allocation pkg/accounting pkg/inventory pkg/placement pkg/queueing; do
  violation engine "${engine}/violation" k8s.io/api/core/v1
done
for pure in dradriver/devices kubectl-gputask/analysis kubectl-gputask/dashboard/live kubectl-gputask/dashboard/rows kubectl-gputask/show pkg/clusterview pkg/disruption pkg/gpufit pkg/gpuqueue pkg/gputask pkg/interning pkg/journal pkg/kueue pkg/migprofile pkg/moveplan \
  pkg/checkpoint pkg/plural pkg/preemption pkg/remediation pkg/reschedule pkg/reservation pkg/snapshot pkg/waitingreason scheduler/gangs scheduler/queues \
  test/chaos/check test/chaos/history test/chaos/load test/chaos/schedule; do
  violation pure "${pure}/violation" k8s.io/client-go/rest
done
violation kubernetes pkg/endpoints/violation k8s.io/kubernetes/pkg/apis/core
violation packages pkg/restconfig/violation "${MODULE}/nodeagent/hardware/gpu"
violation controller . "${MODULE}/scheduler/gangs" main
violation kubectl kubectl-gputask/violation "${MODULE}/scheduler/gangs"
violation localcluster localcluster/violation "${MODULE}/nodeagent/hardware/gpu"
violation nodeagent nodeagent/violation "${MODULE}/scheduler/gangs"
violation dradriver dradriver/violation "${MODULE}/nodeagent/metrics"
for part in accounting admissioncheck queues refusals remediation rescheduler workloads; do
  violation rescheduler "${part}/violation" "${MODULE}/scheduler/gangs"
done
violation scheduler scheduler/violation "${MODULE}/kubectl-gputask/analysis"
for room in capacity eviction filters gangs mirror nodeproblems queues resourceclaims takeover; do
  violation rooms "scheduler/${room}/violation" "${MODULE}/scheduler/planner"
done
violation filters scheduler/filters/violation "${MODULE}/scheduler/queues"
violation agent-memory nodeagent/node/kube/violation k8s.io/client-go/kubernetes
violation nvml nodeagent/hardware/gpu/violation github.com/NVIDIA/go-nvml/pkg/nvml
violation own-modules pkg/generated/violation github.com/chromedp/chromedp
violation controller-runtime kubectl-gputask/usage/violation sigs.k8s.io/controller-runtime

FOUND="$(GOLANGCI_LINT_CACHE="${COPY}/cache" "${ROOT}/bin/golangci-lint" run \
  --enable-only=depguard --allow-parallel-runners --max-issues-per-linter=0 --max-same-issues=0 "${PACKAGES[@]}" || true)"
FAILED=0
for expected in "${EXPECTED[@]}"; do
  if ! grep --quiet --fixed-strings "${expected#./}" <<<"${FOUND}"; then
    echo "The linter does not refuse ${expected}" >&2
    FAILED=1
  fi
done
for rule in $(awk '/^    depguard:/ {on = 1; next} on && /^    [^ ]/ {on = 0} on && /^        [a-z-]+:$/ {sub(":", ""); print $1}' .golangci.yml); do
  if ! grep --quiet --fixed-strings "'${rule}'" <<<"${EXPECTED[*]}"; then # no pipe: grep would break it
    echo "The import rule ${rule} has no violation in ${BASH_SOURCE[0]}" >&2
    FAILED=1
  fi
done
if ((FAILED > 0)); then
  exit 1
fi
echo "The linter refuses ${#EXPECTED[@]} violations of the import rules."
