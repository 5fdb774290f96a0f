// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compat tests the project's programs with other releases of Kubernetes than the one that
// localcluster contains: with their kube-apiserver and kube-controller-manager, which
// hack/build-kubernetes.sh builds from the modules in the folder kubernetes.
//
// All tests are skipped, with a message, if none is built: compiling another Kubernetes takes
// minutes. "make test-compat" builds all and requires them.
package compat
