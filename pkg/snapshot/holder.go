// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import corev1 "k8s.io/api/core/v1"

// Holder is a Pod that holds something on a node.
type Holder struct {
	Pod  *corev1.Pod
	Node string
}
