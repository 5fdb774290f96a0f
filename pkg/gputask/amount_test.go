package gputask

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestGPUAmountBecomesAResource(t *testing.T) {
	t.Parallel()
	gpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{"falldio.com/gpu": resource.MustParse(n)}
	}
	percent := func(n string) corev1.ResourceList {
		return corev1.ResourceList{"falldio.com/gpu-percent": resource.MustParse(n)}
	}
	tests := map[string]struct {
		amount string
		want   corev1.ResourceList // nil if the amount is refused
	}{
		"one GPU is the default":           {"", gpus("1")},
		"whole GPUs":                       {"8", gpus("8")},
		"the most GPUs":                    {"9999", gpus("9999")},
		"half a card":                      {"0.5", percent("50")},
		"half a card with two decimals":    {"0.50", percent("50")},
		"any percentage":                   {"0.46", percent("46")},
		"the smallest share":               {"0.01", percent("1")},
		"the largest share":                {"0.99", percent("99")},
		"no GPU":                           {"0", nil},
		"a share of nothing":               {"0.0", nil},
		"a share of nothing, more exactly": {"0.00", nil},
		"a share without its 0":            {".5", nil},
		"a share without decimals":         {"0.", nil},
		"a finer share":                    {"0.123", nil},
		"one and a half cards":             {"1.5", nil},
		"a negative share":                 {"0.-5", nil},
		"a signed share":                   {"0.+5", nil},
		"words":                            {"many", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := makeTask("train").with(func(t *v1.GPUTask) { t.Spec.GPUAmount = tc.amount })
			pod, err := NewPod(task.GPUTask, 0, 0, PodDefaults{})
			if tc.want == nil {
				if err == nil || !strings.Contains(err.Error(), "spec.gpu-amount \""+tc.amount+"\": must be") {
					t.Errorf("got error %v, want one that names the field", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := corev1.ResourceRequirements{Limits: tc.want, Requests: tc.want}
			if diff := cmp.Diff(want, pod.Spec.Containers[0].Resources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlicesBecomeTheResourceOfTheirProfile(t *testing.T) {
	t.Parallel()
	list := func(name corev1.ResourceName, count string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(count)}
	}
	tests := map[string]struct {
		profile, amount string
		gpus            corev1.ResourceName
		want            corev1.ResourceList
		refused         string
	}{
		"one slice is the default":      {profile: "1g.10gb", want: list("falldio.com/mig-1g.10gb", "1")},
		"several slices":                {profile: "2g.20gb", amount: "3", want: list("falldio.com/mig-2g.20gb", "3")},
		"with the media engines":        {profile: "1g.10gb+me", amount: "1", want: list("falldio.com/mig-1g.10gb.me", "1")},
		"beside NVIDIA's device plugin": {profile: "1g.10gb", amount: "2", gpus: v1.ResourceNVIDIAGPU, want: list("nvidia.com/mig-1g.10gb", "2")},
		"a share of a slice":            {profile: "1g.10gb", amount: "0.5", refused: `spec.gpu-amount "0.5": must be a whole number of MIG slices`},
		"no slice":                      {profile: "1g.10gb", amount: "0", refused: `spec.gpu-amount "0": must be a whole number of MIG slices`},
		"what is no profile":            {profile: "small", amount: "1", refused: `spec.gpuProfile "small": must be a MIG profile`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := makeTask("infer").with(func(t *v1.GPUTask) { t.Spec.GPUProfile, t.Spec.GPUAmount = tc.profile, tc.amount })
			pod, err := NewPod(task.GPUTask, 0, 0, PodDefaults{GPUResource: tc.gpus})
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("got error %v, want %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(corev1.ResourceRequirements{Limits: tc.want, Requests: tc.want}, pod.Spec.Containers[0].Resources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			if !toleratesGPUs(pod) {
				t.Errorf("tolerations %v, want one of the taint of GPU nodes", pod.Spec.Tolerations)
			}
		})
	}
}

func toleratesGPUs(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(one corev1.Toleration) bool { return one.Key == v1.TaintGPU })
}

func TestRolesHaveSlicesOfTheirOwnProfile(t *testing.T) {
	t.Parallel()
	task := makeTask("rl").with(func(t *v1.GPUTask) {
		t.Spec.GPUProfile = "1g.10gb"
		t.Spec.Roles = []v1.Role{{Name: "launcher", GPUAmount: "0"}, {Name: "actor", GPUAmount: "2"}, {Name: "learner", GPUProfile: "3g.40gb"}}
	})
	want := []corev1.ResourceList{nil, {"falldio.com/mig-1g.10gb": resource.MustParse("2")}, {"falldio.com/mig-3g.40gb": resource.MustParse("1")}}
	for index, requests := range want {
		pod, err := NewPod(task.GPUTask, index, 0, PodDefaults{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(requests, pod.Spec.Containers[0].Resources.Requests); diff != "" {
			t.Errorf("Pod %s requests (-want +got):\n%s", pod.Name, diff)
		}
	}
	roles := Roles(task.GPUTask)
	if got := []int{processesPerPod(&roles[0]), processesPerPod(&roles[1]), processesPerPod(&roles[2])}; !slices.Equal(got, []int{1, 2, 1}) {
		t.Errorf("processes of each Pod: %v, want one for each slice", got)
	}
}

func TestAPodHasWholeGPUsOrAShare(t *testing.T) {
	t.Parallel()
	for _, amount := range []string{"2", "0.5"} {
		both := corev1.ResourceList{v1.ResourceGPU: resource.MustParse("7"), v1.ResourceGPUPercent: resource.MustParse("77"), "falldio.com/mig-1g.10gb": resource.MustParse("1")}
		task := makeTask("train").with(func(t *v1.GPUTask) {
			t.Spec.GPUAmount = amount
			t.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "gpu-task", Resources: corev1.ResourceRequirements{Limits: both, Requests: both},
			}}}}
		})
		pod, err := NewPod(task.GPUTask, 0, 0, PodDefaults{})
		if err != nil {
			t.Fatal(err)
		}
		if got := pod.Spec.Containers[0].Resources.Limits; len(got) != 1 {
			t.Errorf("gpu-amount %s: the container asks for %v, want one of the resources of GPUs", amount, got)
		}
	}
}
