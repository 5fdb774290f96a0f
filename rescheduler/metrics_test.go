// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestTheLedgerIsShown(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	f.plan.Status = v1.MovePlanStatus{
		Phase: v1.PlanExecuting, Moves: []v1.MoveStatus{{State: v1.MoveEvicted, EvictedAt: &metav1.Time{Time: testTime}, LostGPUSeconds: 600}},
	}
	f.create()
	want := `
# HELP gpu_controller_move_plans MovePlans that have not ended, by phase (Proposed, Approved, Executing).
# TYPE gpu_controller_move_plans gauge
gpu_controller_move_plans{phase="Approved"} 0
gpu_controller_move_plans{phase="Executing"} 1
gpu_controller_move_plans{phase="Proposed"} 0
# HELP gpu_controller_moves_left Pods that may still be moved within the hour, if there is a limit.
# TYPE gpu_controller_moves_left gauge
gpu_controller_moves_left 119
# HELP gpu_controller_moves_left_gpu_minutes GPU-minutes of work that may still be lost to moves within the hour, of the namespaces that have lost some, if there is a limit.
# TYPE gpu_controller_moves_left_gpu_minutes gauge
gpu_controller_moves_left_gpu_minutes{namespace="default"} 590
`
	if err := testutil.CollectAndCompare(&planCollector{rescheduler: f.Rescheduler}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
