// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

func is(kind, reason, message string) func(*Workload) {
	return withCondition(kind, metav1.ConditionTrue, reason, message)
}

func isNot(kind, reason, message string) func(*Workload) {
	return withCondition(kind, metav1.ConditionFalse, reason, message)
}

func withCondition(kind string, status metav1.ConditionStatus, reason, message string) func(*Workload) {
	return func(w *Workload) {
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Add(-60e9)),
		})
	}
}

// reserve reserves quota for all pod sets, of one flavor.
func reserve(w *Workload) {
	is(QuotaReserved, "QuotaReserved", "")(w)
	w.Status.Admission = &WorkloadAdmission{ClusterQueue: "team-a"}
	for _, set := range w.Spec.PodSets {
		w.Status.Admission.PodSetAssignments = append(w.Status.Admission.PodSetAssignments, PodSetAssignment{
			Name: set.Name, Count: new(set.Count), Flavors: map[corev1.ResourceName]string{v1.ResourceGPU: "spot", corev1.ResourceCPU: "spot"},
		})
	}
}

func admit(w *Workload) {
	reserve(w)
	is(Admitted, "Admitted", "")(w)
}

func evict(w *Workload) {
	admit(w)
	is(Evicted, "Preempted", "for a workload of team-b")(w)
}

func workloadOf(t *testing.T, task *v1.GPUTask, change ...func(*Workload)) *Workload {
	t.Helper()
	workload := mustWorkload(t, task)
	workload.ResourceVersion, workload.UID = "7", "workload-uid"
	for _, apply := range change {
		apply(workload)
	}
	return workload
}

func flavors(name string) *ResourceFlavor {
	if name != "spot" {
		return nil
	}
	flavor := &ResourceFlavor{}
	flavor.Spec.NodeLabels = map[string]string{"pool": "spot"}
	flavor.Spec.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	return flavor
}

func TestWhyATaskIsHeld(t *testing.T) {
	t.Parallel()
	task := newTask()
	for name, c := range map[string]struct {
		workload        *Workload
		reason, message string
	}{
		"it has no Workload yet": {nil, "WaitingForQuota", `waiting for quota in Kueue's queue "team-a"`},
		"Kueue has not seen it":  {workloadOf(t, task), "WaitingForQuota", `waiting for quota in Kueue's queue "team-a"`},
		"there is no quota": {
			workloadOf(t, task, isNot(QuotaReserved, "Pending", "2 more needed")), "WaitingForQuota", `waiting for quota in Kueue's queue "team-a": 2 more needed`,
		},
		"a check is not ready": {
			workloadOf(t, task, reserve, func(w *Workload) {
				w.Status.AdmissionChecks = []AdmissionCheckState{{Name: "budget", State: CheckReady, Message: "fine"}, {Name: "gpu-fit", State: CheckPending, Message: "no room"}}
			}),
			"WaitingForAdmissionChecks", "waiting for Kueue's admission checks: gpu-fit: no room",
		},
		"it is evicted": {workloadOf(t, task, evict), "Evicted", "evicted by Kueue (Preempted): for a workload of team-b"},
		"it was evicted, and queues again": {
			workloadOf(t, task, is(Evicted, "Preempted", "for another"), isNot(QuotaReserved, "Pending", "no quota")),
			"WaitingForQuota", `waiting for quota in Kueue's queue "team-a": no quota`,
		},
		"it is deactivated": {
			workloadOf(t, task, isNot(QuotaReserved, "Pending", ""), func(w *Workload) { w.Spec.Active = new(false) }), "WorkloadDeactivated",
			"its Workload " + WorkloadName(task) + " is deactivated: set its spec.active to true to queue the task again",
		},
		"it is marked as finished": {
			workloadOf(t, task, admit, is(Finished, "OutOfSync", "")), "WorkloadFinished",
			"its Workload " + WorkloadName(task) + " is marked as finished: delete that Workload to queue the task again",
		},
		"it was changed since": {
			workloadOf(t, task, admit, func(w *Workload) { w.Labels[v1.LabelTemplateHash] = "another" }), "WaitingForQuota",
			`waiting for quota in Kueue's queue "team-a": the task was changed after it got quota, and is queued again`,
		},
		"its Workload is being deleted": {
			workloadOf(t, task, admit, func(w *Workload) { w.DeletionTimestamp = &metav1.Time{Time: now} }), "WaitingForQuota", `waiting for quota in Kueue's queue "team-a"`,
		},
	} {
		got, err := AdmissionOf(task, c.workload, flavors)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(&gputask.Admission{Reason: c.reason, Message: c.message}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatAnAdmittedTaskIsGiven(t *testing.T) {
	t.Parallel()
	task := newTask(withRoles)
	workload := workloadOf(t, task, admit, isNot(Evicted, "QuotaReserved", ""), func(w *Workload) {
		workers := &w.Status.Admission.PodSetAssignments[1]
		workers.Count, workers.TopologyAssignment = new(int32(3)), &map[string]any{}
		w.Status.AdmissionChecks = []AdmissionCheckState{{Name: "gpu-fit", State: CheckReady, PodSetUpdates: []PodSetUpdate{
			{Name: "worker", NodeSelector: map[string]string{"leaf": "3"}, Labels: map[string]string{"a": "b"}},
			{Name: "launcher"},
		}}}
	})
	got, err := AdmissionOf(task, workload, flavors)
	if err != nil {
		t.Fatal(err)
	}
	spot := []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	want := &gputask.Admission{Admitted: true, Grants: map[string]gputask.Grant{
		"launcher": {
			Pods: 1, Labels: map[string]string{LabelPodSet: "launcher"}, Annotations: map[string]string{AnnotationWorkload: workload.Name},
			NodeSelector: map[string]string{"pool": "spot"}, Tolerations: spot,
		},
		"worker": {
			Pods: 3, Labels: map[string]string{LabelPodSet: "worker", "a": "b"},
			Annotations:  map[string]string{AnnotationWorkload: workload.Name, topologyUnconstrained: "true"},
			NodeSelector: map[string]string{"pool": "spot", "leaf": "3"}, Tolerations: spot,
			SchedulingGates: []corev1.PodSchedulingGate{{Name: topologyGate}},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestQuotaThatWasGivenBackIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ admitted, reclaimed, want int32 }{
		"nothing was given back":                    {4, 0, 4},
		"fewer were admitted":                       {3, 0, 3},
		"one of all was given back":                 {4, 1, 3},
		"what was given back was not even admitted": {3, 1, 3},
		"all are done":                              {4, 4, 0},
		"fewer than none were admitted":             {-5, 0, 0},
	} {
		task := newTask(func(t *v1.GPUTask) { t.Spec.Replicas = new(int32(4)) })
		workload := workloadOf(t, task, admit, func(w *Workload) {
			w.Status.Admission.PodSetAssignments[0].Count = &c.admitted
			w.Status.ReclaimablePods = []ReclaimablePods{{Name: "main", Count: c.reclaimed}}
		})
		got, err := AdmissionOf(task, workload, flavors)
		if err != nil || got.Grants[""].Pods != int(c.want) {
			t.Errorf("%s: got %+v, error %v", name, got, err)
		}
	}
}

func TestAMissingFlavorIsAnError(t *testing.T) {
	t.Parallel()
	task := newTask()
	workload := workloadOf(t, task, admit, func(w *Workload) { w.Status.Admission.PodSetAssignments[0].Flavors[v1.ResourceGPU] = "gone" })
	if got, err := AdmissionOf(task, workload, flavors); err == nil {
		t.Errorf("got %+v", got)
	}
}
