// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// boundPod returns a Pod on node n with GPUs of it: whole ones, or a share of the first
// one in percent.
func boundPod(name string, percent int, cards ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "work"}}},
	}
	what, count := v1.ResourceGPU, len(cards)
	if percent > 0 {
		what, count = v1.ResourceGPUPercent, percent
	}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{what: *resource.NewQuantity(int64(count), resource.DecimalSI)}
	pod.Annotations[inventory.AssignmentAnnotation] = fmt.Sprintf(`{"version":"v1","containers":{"work":{%q:["%s"]}}}`, what, strings.Join(cards, `","`))
	return pod
}

func changed(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	other := pod.DeepCopy()
	change(other)
	return other
}

// TestTheLedgerNotices feeds the ledger with violations, and with valid events.
func TestTheLedgerNotices(t *testing.T) {
	t.Parallel()
	whole, half := boundPod("whole", 0, "a"), boundPod("half", 60, "a")
	ended := changed(whole, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
	leaving := changed(whole, func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
	tests := map[string]struct {
		events []*corev1.Pod // a repeated event deletes the Pod
		want   string
	}{
		"a whole GPU for two":                  {[]*corev1.Pod{whole, boundPod("other", 0, "a")}, "GPU a is given twice"},
		"a share of a GPU that is taken":       {[]*corev1.Pod{whole, half}, "GPU a is given twice"},
		"shares of more than a GPU":            {[]*corev1.Pod{half, boundPod("other", 41, "a")}, "GPU a is given twice"},
		"shares of just a GPU":                 {[]*corev1.Pod{half, boundPod("other", 40, "a")}, ""},
		"the GPU of a Pod that is leaving":     {[]*corev1.Pod{whole, leaving, half}, "GPU a is given twice"},
		"the GPU of a Pod that has ended":      {[]*corev1.Pod{whole, ended, half}, ""},
		"the GPU of a Pod that is gone":        {[]*corev1.Pod{whole, whole, half}, ""},
		"a GPU of another node":                {[]*corev1.Pod{boundPod("x", 0, "b")}, `got GPU b of node "m"`},
		"a GPU that does not exist":            {[]*corev1.Pod{boundPod("x", 0, "c")}, `got GPU c of node ""`},
		"a Pod without its GPUs":               {[]*corev1.Pod{changed(whole, func(pod *corev1.Pod) { pod.Annotations = nil })}, "was bound without GPUs"},
		"a Pod with too few":                   {[]*corev1.Pod{changed(boundPod("x", 0, "a", "d"), func(pod *corev1.Pod) { pod.Annotations = whole.Annotations })}, "wants 2"},
		"GPUs that change":                     {[]*corev1.Pod{whole, changed(whole, func(pod *corev1.Pod) { pod.Annotations = boundPod("x", 0, "d").Annotations })}, "have changed"},
		"a Pod that could never run":           {[]*corev1.Pod{changed(whole, func(pod *corev1.Pod) { pod.Labels[infeasibleLabel] = "true" })}, "is infeasible"},
		"a node of another scheduler's pool":   {[]*corev1.Pod{changed(whole, func(pod *corev1.Pod) { pod.Labels[poolLabel] = "b" })}, "of the scheduler of pool b"},
		"a Pod that waits, whatever it claims": {[]*corev1.Pod{whole, changed(half, func(pod *corev1.Pod) { pod.Spec.NodeName = "" })}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			l.nodes = map[string]string{"a": "n", "b": "m", "d": "n"}
			for i, pod := range test.events {
				event := watch.Modified
				if i > 0 && test.events[i-1] == pod {
					event = watch.Deleted
				}
				l.pod(event, pod, time.Now())
			}
			if got := strings.Join(l.problems, "; "); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("problems %q, want %q", got, test.want)
			}
		})
	}
}

// TestTheLedgerMeasuresPartialGangs follows a gang of three that starts, loses a Pod
// and gets another.
func TestTheLedgerMeasuresPartialGangs(t *testing.T) {
	t.Parallel()
	l := newLedger()
	begin := time.Now()
	second := 0
	see := func(event watch.EventType, name string, change func(*corev1.Pod)) {
		second++
		pod := changed(boundPod(name, 10, "a"), change)
		pod.Labels["gang"], pod.Labels[v1.LabelMinAvailable] = "g", "3"
		l.nodes = map[string]string{"a": "n"}
		l.pod(event, pod, begin.Add(time.Duration(second)*time.Second))
	}
	asIs := func(*corev1.Pod) {}
	unbound := func(pod *corev1.Pod) { pod.Spec.NodeName = "" }
	for _, name := range []string{"x", "y", "z"} {
		see(watch.Added, name, unbound) // 1 to 3
	}
	see(watch.Modified, "x", asIs) // 4
	see(watch.Modified, "y", asIs)
	see(watch.Modified, "z", asIs)                                                                        // 6: whole
	see(watch.Modified, "z", func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: begin} }) // 7
	see(watch.Deleted, "z", func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: begin} })  // 8
	see(watch.Added, "new", asIs)                                                                         // 9: whole
	see(watch.Modified, "x", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })            // 10: still
	see(watch.Deleted, "new", asIs)                                                                       // 11: on
	l.killed(begin.Add(12 * time.Second))
	var got []string
	for _, one := range l.partial(begin.Add(15 * time.Second)) {
		got = append(got, one.String())
	}
	want := []string{
		"gang g had at most 1 of 3 Pods for 4s while losing Pods, Pods were deleted, the scheduler was killed",
		"gang g had at most 2 of 3 Pods for 2s while losing Pods, Pods were deleted",
		"gang g had at most 2 of 3 Pods for 2s while starting",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("windows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r := l.record("g"); r.whole.Sub(r.created) != 5*time.Second || r.whole.Sub(r.firstBind) != 2*time.Second {
		t.Errorf("whole after %v and %v", r.whole.Sub(r.created), r.whole.Sub(r.firstBind))
	}
}
