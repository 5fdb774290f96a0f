#!/usr/bin/env bash
# Copyright The gpu-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# release-plugin.sh VERSION URL FOLDER builds the archives of kubectl-gputask for a release that
# can be downloaded from URL, and its manifest for krew:
#
#   hack/release-plugin.sh v1.2.3 https://example.com/releases/v1.2.3 out
#   kubectl krew install --manifest=out/gputask.yaml --archive=out/kubectl-gputask-linux-amd64.tar.gz
#
# PLATFORMS="linux/amd64" builds fewer, for a trial.

set -o errexit -o nounset -o pipefail

if (($# != 3)); then
  echo "usage: release-plugin.sh VERSION URL FOLDER" >&2
  exit 2
fi
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VERSION="$1" URL="$2"
mkdir -p "$3"
FOLDER="$(cd "$3" && pwd)"
PLATFORMS="${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}"
WORK="$(mktemp -d)"
trap 'rm -rf "${WORK}"' EXIT

FILL=(-e "s|\${VERSION}|${VERSION}|" -e "s|\${URL}|${URL}|")
for platform in ${PLATFORMS}; do
  os="${platform%/*}" arch="${platform#*/}"
  binary=kubectl-gputask
  if [[ ${os} == windows ]]; then
    binary+=.exe
  fi
  mkdir -p "${WORK}/${os}-${arch}"
  (cd "${ROOT}" && CGO_ENABLED=0 GOOS="${os}" GOARCH="${arch}" "${GO:-go}" build -trimpath \
    -ldflags "-s -w -X main.version=${VERSION}" -o "${WORK}/${os}-${arch}/${binary}" ./kubectl-gputask)
  cp "${ROOT}/LICENSE" "${WORK}/${os}-${arch}/"
  archive="${FOLDER}/kubectl-gputask-${os}-${arch}.tar.gz"
  tar --create --gzip --file="${archive}" --directory="${WORK}/${os}-${arch}" "${binary}" LICENSE
  FILL+=(-e "s|\${SHA256_${os}_${arch}}|$(sha256sum "${archive}" | cut -d' ' -f1)|")
done
sed "${FILL[@]}" "${ROOT}/kubectl-gputask/krew/gputask.yaml" >"${FOLDER}/gputask.yaml"
echo "${FOLDER}/gputask.yaml"
