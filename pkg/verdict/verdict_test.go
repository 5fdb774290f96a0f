// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	. "falldio.github.io/gpu-controller/pkg/verdict"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

// refused returns a Pod without a node about which a scheduler has said a sentence and, if there is one, a reason.
func refused(sentence string, reason *v1.WaitingReason) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-0"}}
	if reason != nil {
		sentence = waitingreason.Sentence(reason)
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.AnnotationWaitingReason, waitingreason.Encode(reason))
	}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/4 nodes are available: " + sentence + ".",
	}}
	return pod
}

func because(cause v1.WaitingCause, message string, nodes ...v1.WaitingNodes) *corev1.Pod {
	return refused("", &v1.WaitingReason{Reason: cause, Message: message, Nodes: nodes, Never: cause == v1.WaitsForever})
}

// closed returns a Pod that only the nodes a and b could take, which are closed.
func closed(causes ...string) *corev1.Pod {
	reason := v1.WaitingReason{
		Reason: v1.WaitsForClosedNodes, Message: "2 nodes",
		Remedies: []v1.WaitingRemedy{{Kind: "OpenNodes", Nodes: []string{"a", "b"}, Message: "once they take Pods"}},
	}
	for _, cause := range causes {
		reason.Nodes = append(reason.Nodes, v1.WaitingNodes{Count: 1, Cause: cause})
	}
	return refused("", &reason)
}

func becauseOf(reason v1.TaskReason) metav1.Condition {
	return metav1.Condition{Type: v1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: string(reason)}
}

const tooFew = "2 nodes have too few free GPUs"

func TestTheVerdictOnPods(t *testing.T) {
	t.Parallel()
	busy := v1.WaitingNodes{Count: 2, Cause: "InsufficientGPUs", Message: "have too few free GPUs"}
	other := v1.WaitingNodes{Count: 6, Cause: "OtherModel", Message: "have another GPU model"}
	port := v1.WaitingNodes{Count: 1, Cause: "NodePorts", Message: "node(s) didn't have free ports for the requested pod ports"}
	tests := map[string]struct {
		pod  *corev1.Pod
		want Verdict
	}{
		"GPUs are taken":              {because(v1.WaitsForGPUs, tooFew, busy), Verdict{Kind: v1.TaskQueued, Cause: tooFew}},
		"a queue is at its limit":     {because(v1.WaitsForQueue, "queue a is full"), Verdict{Kind: v1.TaskQueued, Cause: "queue a is full"}},
		"a queue that it may not use": {because(v1.WaitsForQueueAccess, "no"), Verdict{Kind: v1.TaskBlocked, Cause: "no", Commands: []string{"kubectl get gpuqueues"}}},
		"no node has so many GPUs":    {because(v1.WaitsForever, "8 nodes have too few GPUs"), Verdict{Kind: v1.TaskNeverFits, Cause: "8 nodes have too few GPUs"}},
		"an invalid demand":           {because(v1.WaitsForChange, "no"), Verdict{Kind: v1.TaskNeverFits, Cause: "no"}},
		"its nodes are cordoned": {closed("NodeCordoned"), Verdict{
			Kind: v1.TaskBlocked, Cause: "2 nodes", Help: "it would start once they take Pods", Commands: []string{"kubectl uncordon a b"},
		}},
		"its nodes are cordoned or not ready": {closed("NodeCordoned", "NodeNotReady"), Verdict{
			Kind: v1.TaskBlocked, Cause: "2 nodes", Help: "it would start once they take Pods", Commands: []string{"kubectl get nodes a b"},
		}},
		"moves make room":               {because(v1.WaitsForMoves, "places are not free yet"), Verdict{Kind: v1.TaskStarting, Cause: "places are not free yet"}},
		"a cause of a later version":    {because("Weather", "it rains"), Verdict{Kind: v1.TaskQueued, Cause: "it rains"}},
		"a port is taken where room is": {because(v1.WaitsForConstraints, "port", port, busy), Verdict{Kind: v1.TaskQueued, Cause: "port"}},
		"a port is taken on all its nodes": {
			because(v1.WaitsForConstraints, "port", port, other), Verdict{Kind: v1.TaskBlocked, Cause: "port", Commands: []string{"kubectl describe pod train-0 --namespace team"}},
		},
		"a volume that does not exist": {
			because(v1.WaitsForExternal, `PersistentVolumeClaim "data" does not exist`, v1.WaitingNodes{Cause: "VolumeBinding"}), Verdict{
				Kind: v1.TaskBlocked, Cause: `PersistentVolumeClaim "data" does not exist`, Commands: []string{"kubectl get persistentvolumeclaims --namespace team"},
			},
		},
		"the same in the words of kube-scheduler": {
			refused(`persistentvolumeclaim "data" not found`, nil), Verdict{
				Kind: v1.TaskBlocked, Cause: `PersistentVolumeClaim "data" does not exist`, Commands: []string{"kubectl get persistentvolumeclaims --namespace team"},
			},
		},
		"other words of another scheduler": {refused("4 Insufficient cpu", nil), Verdict{Kind: v1.TaskQueued, Cause: "0/4 nodes are available: 4 Insufficient cpu"}},
		"nothing yet":                      {&corev1.Pod{}, Verdict{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, OfPods([]*corev1.Pod{test.pod})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheVerdictOnATask(t *testing.T) {
	t.Parallel()
	waits := because(v1.WaitsForGPUs, tooFew)
	tests := map[string]struct {
		status v1.GPUTaskStatus
		want   Verdict
	}{
		"one that runs":           {v1.GPUTaskStatus{Phase: v1.PhaseRunning, Message: "running on a"}, Verdict{Kind: Runs, Cause: "running on a"}},
		"one that has failed":     {v1.GPUTaskStatus{Phase: v1.PhaseFailed, Message: "exit code 1"}, Verdict{Kind: Finished, Cause: "exit code 1"}},
		"its Pods wait":           {v1.GPUTaskStatus{Phase: v1.PhasePending, Message: "preempted; " + tooFew, Conditions: []metav1.Condition{becauseOf(v1.TaskQueued)}}, Verdict{Kind: v1.TaskQueued, Cause: tooFew}},
		"as of an older version":  {v1.GPUTaskStatus{Phase: v1.PhasePending, Message: tooFew}, Verdict{Kind: v1.TaskQueued, Cause: tooFew}},
		"it restarts":             {v1.GPUTaskStatus{Phase: v1.PhasePending, Message: "restart 1 of 3", Conditions: []metav1.Condition{becauseOf(v1.TaskStarting)}}, Verdict{Kind: v1.TaskStarting, Cause: "restart 1 of 3"}},
		"nobody has looked at it": {v1.GPUTaskStatus{}, Verdict{Kind: v1.TaskBlocked, Cause: "gpu-controller has not processed it yet", Commands: []string{"kubectl gputask version"}}},
		"it waits for another task": {v1.GPUTaskStatus{Phase: v1.PhaseWaiting, Message: "waiting for a"}, Verdict{
			Kind: v1.TaskBlocked, Cause: "waiting for a", Commands: []string{"kubectl gputask list --namespace team"},
		}},
		"a quota refuses its Pods": {
			v1.GPUTaskStatus{Phase: v1.PhasePending, Message: "preempted; exceeded quota", Conditions: []metav1.Condition{
				becauseOf(v1.TaskBlocked),
				{Type: v1.ConditionPodsCreated, Status: metav1.ConditionFalse, Reason: "QuotaExceeded", Message: "exceeded quota"},
			}},
			Verdict{Kind: v1.TaskBlocked, Cause: "exceeded quota", Commands: []string{"kubectl describe resourcequotas --namespace team"}},
		},
		"a node does not answer": {
			v1.GPUTaskStatus{Phase: v1.PhasePending, Message: "node a does not answer", Conditions: []metav1.Condition{
				becauseOf(v1.TaskBlocked),
				{Type: v1.ConditionNodesReachable, Status: metav1.ConditionFalse},
			}},
			Verdict{Kind: v1.TaskBlocked, Cause: "node a does not answer", Commands: []string{"kubectl get nodes"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train"}, Status: test.status}
			if diff := cmp.Diff(test.want, OfTask(task, []*corev1.Pod{waits})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyWhatWaitsItsTurnOrStartsIsServed(t *testing.T) {
	t.Parallel()
	for kind, want := range map[Kind]bool{v1.TaskQueued: true, v1.TaskStarting: true, v1.TaskBlocked: false, v1.TaskNeverFits: false, Runs: false, Finished: false} {
		if one := (&Verdict{Kind: kind}); one.IsServed() != want {
			t.Errorf("%s is served: %v, want %v", kind, !want, want)
		}
	}
}
