#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# build-kubernetes.sh MINOR... builds kube-apiserver, kube-controller-manager and kubelet of other
# releases of Kubernetes into bin/compat/MINOR, from the modules in test/compat/kubernetes;
# without arguments, of all of them.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROOT="${PWD}"
MODULES=test/compat/kubernetes
VERSION=k8s.io/component-base/version

if (($# == 0)); then
  mapfile -t MINORS < <(cd "${MODULES}" && ls)
  set -- "${MINORS[@]}"
fi
export CGO_ENABLED=0 # as in Kubernetes' own releases
for minor in "$@"; do
  release="$("${GO:-go}" -C "${MODULES}/${minor}" list -m -f '{{.Version}}' k8s.io/kubernetes)"
  for program in kube-apiserver kube-controller-manager kubelet; do
    hack/compile.sh "${program}" "Kubernetes ${release}; minutes, the first time" -C "${MODULES}/${minor}" \
      -ldflags "-s -w -X ${VERSION}.gitVersion=${release} -X ${VERSION}.gitMajor=1 -X ${VERSION}.gitMinor=${minor#1.}" \
      -o "${ROOT}/bin/compat/${minor}/${program}" "k8s.io/kubernetes/cmd/${program}"
  done
done
