// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestPodOfAManifestWithFiveFields(t *testing.T) {
	t.Parallel()
	task := makeTask("train").with(func(t *v1.GPUTask) {
		t.Spec.GPU, t.Spec.GPUAmount, t.Spec.CPU, t.Spec.Memory, t.Spec.Priority = "rtx4090", "2", "8", "16Gi", "gpu-low-priority"
	})
	got, err := NewPod(task.GPUTask, 0, 0, PodDefaults{Image: "cuda", SchedulerName: "gpu-scheduler"})
	if err != nil {
		t.Fatal(err)
	}
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("8"),
		corev1.ResourceMemory: resource.MustParse("16Gi"),
		v1.ResourceGPU:        resource.MustParse("2"),
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train", Namespace: "default",
			Labels: map[string]string{"app": "gpu-task", "falldio.com/gputask": "train", "falldio.com/index": "0", "falldio.com/attempt": "0"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "falldio.com/v1", Kind: "GPUTask", Name: "train", UID: "task-uid",
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:     corev1.RestartPolicyNever,
			NodeSelector:      map[string]string{"falldio.com/gpu": "rtx4090"},
			PriorityClassName: "gpu-low-priority",
			SchedulerName:     "gpu-scheduler",
			Tolerations: []corev1.Toleration{
				{Key: "falldio.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
				{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
			},
			Volumes: []corev1.Volume{{Name: "gputask-shm", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
			}}},
			Containers: []corev1.Container{{
				Name: "gpu-task", Image: "cuda",
				Env:          []corev1.EnvVar{{Name: "PET_NPROC_PER_NODE", Value: "2"}},
				Resources:    corev1.ResourceRequirements{Limits: resources, Requests: resources},
				VolumeMounts: []corev1.VolumeMount{{Name: "gputask-shm", MountPath: "/dev/shm"}},
			}},
		},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected Pod (-want +got):\n%s", diff)
	}
}

func TestTheQueueOfATaskIsALabelOfItsPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ queue, template, want string }{
		"from the spec":                        {"vision", "", "vision"},
		"from the spec rather than a template": {"vision", "speech", "vision"},
		"from the template":                    {"", "speech", "speech"},
		"none":                                 {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := makeTask("train").with(func(t *v1.GPUTask) {
				t.Spec.Queue, t.Spec.Template = tc.queue, &corev1.PodTemplateSpec{}
				if tc.template != "" {
					t.Spec.Template.Labels = map[string]string{v1.LabelQueue: tc.template}
				}
			})
			pod, err := NewPod(task.GPUTask, 0, 0, PodDefaults{Image: "cuda"})
			if err != nil {
				t.Fatal(err)
			}
			if got := pod.Labels[v1.LabelQueue]; got != tc.want {
				t.Errorf("label %q, want %q", got, tc.want)
			}
		})
	}
}

// Only gpu-controller says for how long a Pod of a task may run, as it stops the Pod then.
func TestATemplateDoesNotSayForHowLongItsPodsRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limit *int64
		want  string
	}{"no limit": {nil, ""}, "a limit": {new(int64(7200)), "7200"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := makeTask("train").with(func(t *v1.GPUTask) {
				t.Spec.MaxRuntimeSeconds, t.Spec.Template = tc.limit, &corev1.PodTemplateSpec{}
				t.Spec.Template.Annotations = map[string]string{v1.AnnotationMaxRuntime: "1", "theirs": "x"}
			})
			pod, err := NewPod(task.GPUTask, 0, 0, PodDefaults{Image: "cuda"})
			if err != nil {
				t.Fatal(err)
			}
			if got := pod.Annotations[v1.AnnotationMaxRuntime]; got != tc.want || pod.Annotations["theirs"] != "x" {
				t.Errorf("annotations %v, want %q", pod.Annotations, tc.want)
			}
			if task.Spec.Template.Annotations[v1.AnnotationMaxRuntime] != "1" {
				t.Error("the task was changed")
			}
		})
	}
}

func TestTheResourceByWhichAPodRequestsGPUs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		amount string
		gpus   corev1.ResourceName
		want   corev1.ResourceList
	}{
		"by default":                    {"2", "", corev1.ResourceList{v1.ResourceGPU: resource.MustParse("2")}},
		"where NVIDIA gives them out":   {"2", v1.ResourceNVIDIAGPU, corev1.ResourceList{v1.ResourceNVIDIAGPU: resource.MustParse("2")}},
		"shares are always nodeagent's": {"0.5", v1.ResourceNVIDIAGPU, corev1.ResourceList{v1.ResourceGPUPercent: resource.MustParse("50")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: v1.GPUTaskSpec{GPUAmount: test.amount, Template: &corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: v1.ContainerName, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{cmp.Or(test.gpus, v1.ResourceGPU): resource.MustParse("7")}},
				}}},
			}}}
			pod, err := NewPod(task, 0, 0, PodDefaults{Image: "any", GPUResource: test.gpus})
			if err != nil {
				t.Fatal(err)
			}
			got := pod.Spec.Containers[0].Resources.Limits
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodKeepsWhatTheTemplateSays(t *testing.T) {
	t.Parallel()
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "vision", "app": "mine"}, Annotations: map[string]string{"note": "x"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyOnFailure,
			SchedulerName: "other",
			NodeSelector:  map[string]string{"disk": "ssd"},
			Tolerations:   []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpEqual, Value: "present"}},
			Containers: []corev1.Container{
				{Name: "logger", Image: "logger"},
				{Name: "gpu-task", Image: "trainer", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")},
				}},
			},
		},
	}
	task := makeTask("train").with(func(t *v1.GPUTask) { t.Spec.Template, t.Spec.Memory, t.Spec.NodePool = template, "1Gi", "blue" })
	pod, err := NewPod(task.GPUTask, 0, 3, PodDefaults{Image: "cuda", SchedulerName: "gpu-scheduler"})
	if err != nil {
		t.Fatal(err)
	}
	wantLabels := map[string]string{"team": "vision", "app": "gpu-task", "falldio.com/gputask": "train", "falldio.com/index": "0", "falldio.com/attempt": "3"}
	if diff := gocmp.Diff(wantLabels, pod.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	wantSpec := template.Spec.DeepCopy()
	wantSpec.NodeSelector["falldio.com/node-pool"] = "blue"
	wantSpec.Tolerations = append(wantSpec.Tolerations, corev1.Toleration{Key: "falldio.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	wantSpec.Containers[1].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceEphemeralStorage: resource.MustParse("1Gi"),
			corev1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourceGPU: resource.MustParse("1"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourceGPU: resource.MustParse("1")},
	}
	if diff := gocmp.Diff(*wantSpec, pod.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if template.Spec.NodeSelector["falldio.com/node-pool"] != "" {
		t.Error("the task's template was changed")
	}
}

func TestPodRequiresGPUMemoryInEveryAlternative(t *testing.T) {
	t.Parallel()
	inZone := func(zone string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}
	}
	enough := corev1.NodeSelectorRequirement{Key: "falldio.com/gpu-memory", Operator: corev1.NodeSelectorOpGt, Values: []string{"76293"}}

	tests := map[string]struct {
		affinity *corev1.Affinity
		want     []corev1.NodeSelectorTerm
	}{
		"without an affinity of the template": {
			want: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{enough}}},
		},
		"with two alternatives in the template": {
			affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{inZone("a"), inZone("b")},
			}}},
			want: []corev1.NodeSelectorTerm{
				{MatchExpressions: append(inZone("a").MatchExpressions, enough)},
				{MatchExpressions: append(inZone("b").MatchExpressions, enough)},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := makeTask("train").with(func(t *v1.GPUTask) {
				t.Spec.GPUMemory = "80G" // 76293.9 MiB: a card needs at least 76294
				t.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Affinity: tc.affinity}}
			})
			pod, err := NewPod(task.GPUTask, 0, 0, PodDefaults{})
			if err != nil {
				t.Fatal(err)
			}
			got := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Errorf("terms (-want +got):\n%s", diff)
			}
		})
	}
}

func TestATemplateThatIsTooLargeForItsNumberOfPodsFails(t *testing.T) {
	t.Parallel()
	for replicas, failed := range map[int32]bool{500: false, 1100: true} {
		plan, err := Decide(input(makeTask("train").with(func(t *v1.GPUTask) {
			t.Spec.Roles = []v1.Role{{Name: "worker", Replicas: &replicas, Template: &corev1.PodTemplateSpec{}}}
			t.Spec.Roles[0].Template.Annotations = map[string]string{"a": strings.Repeat("a", 512<<10)}
		}), nil))
		if err != nil {
			t.Fatal(err)
		}
		const message = "spec.roles[worker].template with 1100 Pods of 51"
		if got := strings.HasPrefix(plan.Status.Message, message); got != failed || (len(plan.Create) == 0) != failed {
			t.Errorf("%d Pods: %d are created, message %q", replicas, len(plan.Create), plan.Status.Message)
		}
	}
}
