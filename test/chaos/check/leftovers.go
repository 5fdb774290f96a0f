// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// InvariantLeftovers says that when all is quiet nothing is left: no reservation, no plan that is being
// carried out, no taint of healthy nodes, no Pod of a task that is gone.
const InvariantLeftovers = "nothing is left behind"

// leftovers looks at what is left on nodes when the cluster is quiet: at the end, some time after it has
// converged. Plans and Pods it has to wait for are in unfinished.
type leftovers struct{}

func (*leftovers) take(w *world, s *step) {
	if s.Mark != history.End || !w.marks[history.Converged] {
		return
	}
	for _, node := range w.nodes {
		if text := node.Annotations[reservation.Annotation]; text != "" && text != "[]" {
			w.report(InvariantLeftovers, node.Name, "places are still reserved on the node: %s", text)
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == v1.TaintGPUUnhealthy && node.Labels[v1.LabelGPUHealth] == v1.GPUsHealthy {
				w.report(InvariantLeftovers, node.Name, "the node has the taint %s, and its GPUs are healthy", taint.ToString())
			}
		}
	}
}
