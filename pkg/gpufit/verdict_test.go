// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/kueue"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	asked := metav1.NewTime(now.Add(-time.Minute))
	retries := new(int32(3))
	for name, c := range map[string]struct {
		answer  Answer
		waiting time.Duration
		want    kueue.AdmissionCheckState
	}{
		"it fits": {
			Answer{Fits: true, Message: "on node-1"}, 0,
			kueue.AdmissionCheckState{State: kueue.CheckReady, Message: "on node-1", LastTransitionTime: metav1.NewTime(now)},
		},
		"it fits into a domain": {
			Answer{Fits: true, NodeSelector: map[string]string{"leaf": "1"}}, 0,
			kueue.AdmissionCheckState{State: kueue.CheckReady, LastTransitionTime: metav1.NewTime(now), PodSetUpdates: []kueue.PodSetUpdate{
				{Name: "main", NodeSelector: map[string]string{"leaf": "1"}},
			}},
		},
		"it does not fit, and has just begun to wait": {
			Answer{Message: "no place"}, 29 * time.Second,
			kueue.AdmissionCheckState{State: kueue.CheckPending, Message: "no place", LastTransitionTime: asked},
		},
		"it does not fit, and has waited long enough": {
			Answer{Message: "no place"}, 30 * time.Second,
			kueue.AdmissionCheckState{State: kueue.CheckRetry, Message: "no place", LastTransitionTime: metav1.NewTime(now), RequeueAfterSeconds: new(int32(90))},
		},
	} {
		workload := job("job", 1, 1)
		workload.Status.Conditions = []metav1.Condition{{Type: kueue.QuotaReserved, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-c.waiting))}}
		workload.Status.AdmissionChecks = []kueue.AdmissionCheckState{
			{Name: "other", State: kueue.CheckReady}, {Name: "gpu-fit", State: kueue.CheckPending, Message: "old", LastTransitionTime: asked, RetryCount: retries},
		}
		c.want.Name, c.want.RetryCount = "gpu-fit", retries
		got := Verdict(workload, "gpu-fit", c.answer, Times{Patience: 30 * time.Second, Retry: 90 * time.Second}, now)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
