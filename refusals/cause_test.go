// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package refusals

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

func TestWhichTasksHaveTheSameCause(t *testing.T) {
	t.Parallel()
	type refused struct {
		task    *v1.GPUTask
		refusal gputask.Refusal
	}
	quota := func(requested, limited string) gputask.Refusal {
		return gputask.Refusal{Reason: gputask.ReasonQuotaExceeded, Message: "exceeded quota: gpus, requested: pods=" + requested + ", limited: pods=" + limited}
	}
	webhook := func(message string) gputask.Refusal {
		return gputask.Refusal{Reason: "PodRefused", Message: message}
	}
	elsewhere := newTask("b", 1)
	elsewhere.Namespace = "other"
	elastic := newTask("b", 4)
	elastic.Spec.MinAvailable = ptr.To[int32](1)
	class := gputask.Refusal{Reason: reasonPriorityClassNotFound, Message: missingClass("urgent")}
	tests := map[string]struct {
		a, b refused
		same bool
	}{
		"one quota":                   {refused{newTask("a", 1), quota("1", "8")}, refused{newTask("b", 1), quota("1", "9")}, true},
		"one quota, larger Pods":      {refused{newTask("a", 1), quota("1", "8")}, refused{newTask("b", 1), quota("2", "8")}, false},
		"one quota, more Pods":        {refused{newTask("a", 1), quota("1", "8")}, refused{newTask("b", 4), quota("1", "8")}, false},
		"more Pods, but one suffices": {refused{newTask("a", 1), quota("1", "8")}, refused{elastic, quota("1", "8")}, true},
		"quotas of two namespaces":    {refused{newTask("a", 1), quota("1", "8")}, refused{elsewhere, quota("1", "8")}, false},
		"a PriorityClass":             {refused{newTask("a", 1), class}, refused{elsewhere, class}, true},
		"a webhook that names the Pod": {
			refused{newTask("train", 1), webhook(`denied: Pod train-0 has no label`)}, refused{newTask("a", 1), webhook(`denied: Pod a-17 has no label`)}, true,
		},
		"a webhook that names the task": {
			refused{newTask("train", 1), webhook(`denied: task train has no label`)}, refused{newTask("a", 1), webhook(`denied: task a has no label`)}, true,
		},
		"two webhooks":      {refused{newTask("a", 1), webhook(`denied: no label`)}, refused{newTask("b", 1), webhook(`denied: no owner`)}, false},
		"names taken twice": {refused{newTask("a", 1), gputask.Refusal{Reason: "PodNameTaken"}}, refused{newTask("b", 1), gputask.Refusal{Reason: "PodNameTaken"}}, false},
	}
	for name, test := range tests {
		a, b := causeOf(test.a.task, nil, &test.a.refusal), causeOf(test.b.task, nil, &test.b.refusal)
		if (a == b) != test.same {
			t.Errorf("%s: %+v and %+v", name, a, b)
		}
	}
}

func TestWhichQuotasHaveRoomForWhat(t *testing.T) {
	t.Parallel()
	list := func(pods, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods), corev1.ResourceRequestsMemory: resource.MustParse(memory)}
	}
	for _, test := range []struct {
		requests           string
		pods               int
		hardPods, usedPods string
		want               bool
	}{
		{"pods=1", 1, "8", "7", true},
		{"pods=1", 1, "8", "8", false},
		{"pods=1", 2, "8", "7", false},
		{"pods=1,requests.memory=6Gi", 1, "8", "0", true},
		{"pods=1,requests.memory=6Gi", 2, "8", "0", false},
		{"requests.falldio.com/gpu=1", 1, "0", "0", true}, // no longer limited
		{"pods=many", 1, "0", "0", true},
	} {
		demand := quotaDemand{quota: "q", requests: test.requests, pods: test.pods}
		quota := &corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{Hard: list(test.hardPods, "10Gi"), Used: list(test.usedPods, "1Gi")}}
		if got := demand.fits(quota); got != test.want {
			t.Errorf("%+v fits: %t", test, got)
		}
	}
}

func TestAGangNeedsTheMembersThatDoNotRunYet(t *testing.T) {
	t.Parallel()
	task := newTask("train", 4)
	bound, unbound := newPod(t, task), newPod(t, task)
	bound.Spec.NodeName = "node"
	if got := missingToStart(task, []*corev1.Pod{bound, unbound}); got != 3 {
		t.Errorf("%d Pods are missing, want 3", got)
	}
}
