#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Writes all generated code: deep copies, registration, clientset, listers,
# informers and apply configurations from pkg/apis, the CRDs in artifacts/, the
# reference of kubectl-gputask in docs/, and the flags in the values of the Helm chart. Run it after
# every change of pkg/apis, of the command line or of the programs' flags. hack/verify-codegen.sh checks the result. Set OUTPUT to write the
# files into another copy of the tree.

set -o errexit -o nounset -o pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
OUTPUT="${OUTPUT:-${ROOT}}"
MODULE="falldio.github.io/gpu-controller"
BOILERPLATE="${ROOT}/hack/boilerplate.go.txt"

cd "${OUTPUT}"
export GOBIN="${ROOT}/bin/codegen"
# go list only knows the folder of a module once it is downloaded, which happens when a
# package of it is listed, but not when the module is.
CODEGEN="$(go list -modfile="${ROOT}/go.tools.mod" -find -f '{{.Module.Dir}}' k8s.io/code-generator/cmd/client-gen)"
# shellcheck source=/dev/null
source "${CODEGEN}/kube_codegen.sh"

kube::codegen::gen_helpers --boilerplate "${BOILERPLATE}" "${OUTPUT}/pkg/apis"
kube::codegen::gen_register --boilerplate "${BOILERPLATE}" "${OUTPUT}/pkg/apis"
kube::codegen::gen_client \
  --with-watch \
  --with-applyconfig \
  --boilerplate "${BOILERPLATE}" \
  --output-dir "${OUTPUT}/pkg/generated" \
  --output-pkg "${MODULE}/pkg/generated" \
  "${OUTPUT}/pkg/apis"

echo "Generating the CRDs"
go tool -modfile="${ROOT}/go.tools.mod" controller-gen \
  crd:generateEmbeddedObjectMeta=true \
  paths=./pkg/apis/... \
  output:crd:dir=artifacts/crds
go run ./hack/crdschema artifacts/crds/falldio.com_gputasks.yaml artifacts/crds/falldio.com_gpuqueues.yaml

echo "Generating the reference of kubectl-gputask"
cd "${ROOT}"
go run ./hack/clireference "${OUTPUT}/docs/reference/kubectl-gputask.md"

echo "Generating the values of the Helm chart"
go run ./hack/chartvalues "${OUTPUT}/charts/gpu-controller"
