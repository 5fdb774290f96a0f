package gputask

import (
	stdcmp "cmp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestGangsTellTheScheduler(t *testing.T) {
	t.Parallel()
	const group, least = "falldio.com/pod-group", "falldio.com/min-available"
	const level, mode = "falldio.com/topology-level", "falldio.com/topology-mode"
	near := func(m v1.TopologyMode) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) { t.Spec.Topology = &v1.Topology{Level: "leaf", Mode: m} }
	}
	template := func(t *v1.GPUTask) {
		t.Spec.Template = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"team": "vision", group: "mine", least: "7"},
			Annotations: map[string]string{"note": "x", level: "rack"},
		}}
	}
	tests := map[string]struct {
		task        taskBuilder
		labels      map[string]string // beside those that every Pod has
		annotations map[string]string
	}{
		"a task of one Pod is not a gang": {task: makeTask("train")},
		"a task of one Pod is near itself": {
			task: makeTask("train").with(near(v1.TopologyRequired)),
		},
		"a task of one Pod may join a gang through its template": {
			task:        makeTask("train").with(template).with(near(v1.TopologyRequired)),
			labels:      map[string]string{"team": "vision", group: "mine", least: "7"},
			annotations: map[string]string{"note": "x", level: "rack"},
		},
		"a gang starts with all its Pods": {
			task:   makeTask("train").replicas(3),
			labels: map[string]string{group: "train", least: "3"},
		},
		"a gang may start with fewer": {
			task:   makeTask("train").replicas(3).minAvailable(2),
			labels: map[string]string{group: "train", least: "2"},
		},
		"more than all is all": {
			task:   makeTask("train").replicas(3).minAvailable(5),
			labels: map[string]string{group: "train", least: "3"},
		},
		"a gang may insist on one domain": {
			task:        makeTask("train").replicas(2).with(near(v1.TopologyRequired)),
			labels:      map[string]string{group: "train", least: "2"},
			annotations: map[string]string{level: "leaf", mode: "Required"},
		},
		"a gang prefers one domain by default": {
			task:        makeTask("train").replicas(2).with(near("")),
			labels:      map[string]string{group: "train", least: "2"},
			annotations: map[string]string{level: "leaf", mode: "Preferred"},
		},
		"the fields win over the template": {
			task:        makeTask("train").replicas(2).with(template).with(near(v1.TopologyPreferred)),
			labels:      map[string]string{"team": "vision", group: "train", least: "2"},
			annotations: map[string]string{"note": "x", level: "leaf", mode: "Preferred"},
		},
		"the template may set what the fields don't": {
			task:        makeTask("train").replicas(2).with(template),
			labels:      map[string]string{"team": "vision", group: "train", least: "2"},
			annotations: map[string]string{"note": "x", level: "rack"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.task.DeepCopy()
			pod, err := NewPod(tc.task.GPUTask, 0, 0, PodDefaults{})
			if err != nil {
				t.Fatal(err)
			}
			for _, everyPods := range []string{v1.LabelApp, v1.LabelTask, v1.LabelIndex, v1.LabelAttempt} {
				delete(pod.Labels, everyPods)
			}
			if len(pod.Labels) == 0 {
				pod.Labels = nil
			}
			if diff := cmp.Diff(tc.labels, pod.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.annotations, pod.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.task.GPUTask); diff != "" {
				t.Errorf("the task was changed:\n%s", diff)
			}
		})
	}
}

func TestTheNameOfAnyTaskIsAGangsLabel(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "0", "a.b-c.d", strings.Repeat("a", 58)} {
		if problems := validation.IsDNS1123Subdomain(name); problems != nil {
			t.Fatalf("%s is no name of a task: %v", name, problems)
		}
		task := makeTask(name).replicas(4096).with(func(t *v1.GPUTask) { t.Spec.MinAvailable = ptr.To[int32](4095) })
		pod, err := NewPod(task.GPUTask, 4095, 0, PodDefaults{})
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range pod.Labels {
			if problems := validation.IsValidLabelValue(value); problems != nil {
				t.Errorf("task %q: label %s=%s: %v", name, key, value, problems)
			}
		}
	}
}

func TestPodsOfAGangDoNotWaitForMembersThatHaveSucceeded(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		minAvailable int32
		completed    string
		bound        bool
		wantLabel    string
		wantDiscount bool
	}{
		"none has succeeded":                {minAvailable: 4, wantLabel: ""},
		"one has":                           {minAvailable: 4, completed: "0", wantLabel: "3", wantDiscount: true},
		"one has, and others run":           {minAvailable: 3, completed: "0", bound: true, wantLabel: "2"},
		"more have than have to start":      {minAvailable: 2, completed: "0-1", wantLabel: "2"},
		"all but one have":                  {minAvailable: 2, completed: "0-2", wantLabel: "1", wantDiscount: true},
		"the one that is left has its node": {minAvailable: 4, completed: "0-1", bound: true, wantLabel: "2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := makeTask("train").replicas(4).phase(v1.PhasePending).started(time.Minute).with(func(t *v1.GPUTask) {
				t.Spec.MinAvailable, t.Status.CompletedIndexes = &tc.minAvailable, tc.completed
			})
			left := task.pod(3, 0)
			if tc.bound {
				left.Spec.NodeName = "a"
			}
			plan, err := Decide(Input{Task: task.GPUTask, Pods: []*corev1.Pod{left.Pod}, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if plan.MinAvailable != tc.wantLabel || (len(plan.Discount) > 0) != tc.wantDiscount {
				t.Errorf("label %q for %d Pods, want %q, %t", plan.MinAvailable, len(plan.Discount), tc.wantLabel, tc.wantDiscount)
			}
			for _, pod := range created(&plan) {
				if want := stdcmp.Or(tc.wantLabel, "4"); pod.Labels[v1.LabelMinAvailable] != want {
					t.Errorf("new Pod %s has label %q, want %q", pod.Name, pod.Labels[v1.LabelMinAvailable], want)
				}
			}
		})
	}
}
