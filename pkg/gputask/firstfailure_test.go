// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestATaskNamesTheMemberThatFailedFirst has the reports of a gang's nodes arrive in every order: its first member is
// aborted because its last one has crashed two seconds before.
func TestATaskNamesTheMemberThatFailedFirst(t *testing.T) {
	t.Parallel()
	gang := func(limit int32) taskBuilder {
		return makeTask("train").replicas(3).backoffLimit(limit).started(time.Hour).phase(v1.PhaseRunning)
	}
	aborted := func() podBuilder {
		return gang(0).pod(0, 0).ended(corev1.PodFailed, 134, 2*time.Second).with(func(p *corev1.Pod) { p.Spec.NodeName = "good" })
	}
	crashed := func() podBuilder {
		return gang(0).pod(2, 0).ended(corev1.PodFailed, 1, 4*time.Second).with(func(p *corev1.Pod) { p.Spec.NodeName = "bad" })
	}
	stopped := func() podBuilder { return crashed().deletedAgo(time.Second) } // the controller had taken it for one that runs
	runs := func(index int) podBuilder { return gang(0).pod(index, 0).running("other") }
	tests := map[string]struct {
		limit   int32
		reports [][]podBuilder
		want    string
	}{
		"together, of a gang that restarts":        {6, [][]podBuilder{{aborted(), runs(1), crashed()}}, "Pod train-2: container gpu-task ended with exit code 1; restart 1 of 6"},
		"the abortion first":                       {6, [][]podBuilder{{aborted(), runs(1), runs(2)}, {aborted(), crashed()}}, "Pod train-2: container gpu-task ended with exit code 1; restart 1 of 6"},
		"and the other one is being deleted":       {6, [][]podBuilder{{aborted(), runs(1), runs(2)}, {aborted(), stopped()}}, "Pod train-2: container gpu-task ended with exit code 1; restart 1 of 6"},
		"the crash first":                          {6, [][]podBuilder{{runs(0), runs(1), crashed()}, {aborted(), crashed()}}, "Pod train-2: container gpu-task ended with exit code 1; restart 1 of 6"},
		"together, of a gang that fails":           {0, [][]podBuilder{{aborted(), runs(1), crashed()}}, "failing: Pod train-2: container gpu-task ended with exit code 1; no restarts are left"},
		"the abortion first, of a gang that fails": {0, [][]podBuilder{{aborted(), runs(1), runs(2)}, {aborted(), runs(1), crashed()}, {aborted(), crashed()}}, "Pod train-2: container gpu-task ended with exit code 1; no restarts are left (spec.backoffLimit is 0)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := gang(tc.limit)
			for _, report := range tc.reports {
				in := input(task, pods(report...))
				plan, err := Decide(in)
				if err != nil {
					t.Fatal(err)
				}
				assertStable(t, in, plan)
				task = task.with(func(t *v1.GPUTask) { t.Status = plan.Status })
			}
			if !strings.HasPrefix(task.Status.Message, tc.want) {
				t.Errorf("the message is %q, want one that begins with %q", task.Status.Message, tc.want)
			}
			if diff := cmp.Diff([]v1.FailedNode{{Name: "bad", Failures: 1, LastTime: *ago(4 * time.Second)}}, task.Status.FailedNodes); diff != "" {
				t.Errorf("unexpected nodes (-want +got):\n%s", diff)
			}
		})
	}
}
