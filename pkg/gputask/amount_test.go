package gputask

import (
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

func TestAPodHasWholeGPUsOrAShare(t *testing.T) {
	t.Parallel()
	for _, amount := range []string{"2", "0.5"} {
		both := corev1.ResourceList{v1.ResourceGPU: resource.MustParse("7"), v1.ResourceGPUPercent: resource.MustParse("77")}
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
