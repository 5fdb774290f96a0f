// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"

// ProbePath is where a node agent says how fast its node reaches a target.
const ProbePath = "/probe"

// AnnotationProbeURL is the annotation of a Node with the URL of its agent's
// ProbePath, where that is not reached by the Node's internal address. The query
// may have parameters; target and module are added.
const AnnotationProbeURL = v1.GroupName + "/probe-url"
