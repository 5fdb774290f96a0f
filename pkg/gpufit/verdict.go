// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufit

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/kueue"
)

// Times are how long a Workload without places waits.
type Times struct {
	// Patience is how long it keeps its quota.
	Patience time.Duration
	// Retry is how long it waits before it queues again after it has given its quota back.
	Retry time.Duration
}

// Verdict returns what an admission check says about a Workload that asks: Ready if it fits, and
// with a node selector for its topology domain; otherwise Pending for as long as it may keep its
// quota, in case a place becomes free that is being cleared for it, and then Retry.
func Verdict(workload *kueue.Workload, check string, answer Answer, times Times, now time.Time) kueue.AdmissionCheckState {
	verdict := kueue.AdmissionCheckState{Name: check, State: kueue.CheckPending}
	if before := workload.Check(check); before != nil {
		verdict = *before
	}
	verdict.Message, verdict.PodSetUpdates, verdict.RequeueAfterSeconds = answer.Message, nil, nil
	switch {
	case answer.Fits:
		verdict.State, verdict.PodSetUpdates = kueue.CheckReady, updates(workload, answer.NodeSelector)
	case now.Sub(workload.ReservedAt()) >= times.Patience:
		verdict.State, verdict.RequeueAfterSeconds = kueue.CheckRetry, new(int32(times.Retry/time.Second)) //nolint:gosec // a flag
	}
	if before := workload.Check(check); before == nil || before.State != verdict.State {
		verdict.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	}
	return verdict
}

// updates adds a node selector to the Pods of all pod sets.
func updates(workload *kueue.Workload, selector map[string]string) []kueue.PodSetUpdate {
	if len(selector) == 0 {
		return nil
	}
	list := make([]kueue.PodSetUpdate, 0, len(workload.Spec.PodSets))
	for i := range workload.Spec.PodSets {
		list = append(list, kueue.PodSetUpdate{Name: workload.Spec.PodSets[i].Name, NodeSelector: selector})
	}
	return list
}
