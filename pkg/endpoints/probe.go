// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"

// ProbePath is where a node agent reports how fast its node reaches a target.
const ProbePath = "/probe"

// AnnotationProbeURL is the annotation of a Node with the URL of its agent's ProbePath, if
// that can't be reached at the Node's internal address. The query may have parameters;
// target and module are added.
const AnnotationProbeURL = v1.GroupName + "/probe-url"
