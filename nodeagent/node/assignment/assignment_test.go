// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

const gpu, percent = "falldio.com/gpu", "falldio.com/gpu-percent"

// pod has started and says this of its devices.
func pod(annotation string, change ...func(*corev1.Pod)) *corev1.Pod {
	started := metav1.Unix(1000, 0)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{StartTime: &started},
	}
	if annotation != "" {
		p.Annotations = map[string]string{inventory.AssignmentAnnotation: annotation}
	}
	for _, apply := range change {
		apply(p)
	}
	return p
}

func notStarted(p *corev1.Pod) { p.Status.StartTime = nil }
func otherName(p *corev1.Pod)  { p.Name = "q" }
func withInit(policy *corev1.ContainerRestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "i", RestartPolicy: policy}}
	}
}

// given is what the kubelet says: the container c of the Pod p has 1 and 2.
func given() []podresources.Allocation {
	return []podresources.Allocation{
		{Namespace: "ns", Pod: "p", Container: "c", Resource: gpu, DeviceIDs: []string{"1", "2"}},
		{Namespace: "ns", Pod: "p", Container: "c", Resource: "other.com/nic", DeviceIDs: []string{"n"}},
	}
}

func TestCorrectionsOfShares(t *testing.T) {
	t.Parallel()
	const right = `{"version":"v1","containers":{"c":{"falldio.com/gpu-percent":["GPU-a"]}}}`
	has := []podresources.Allocation{{Namespace: "ns", Pod: "p", Container: "c", Resource: percent, DeviceIDs: []string{"GPU-a::0", "GPU-a::1", "GPU-a::9"}}}
	tests := map[string]struct{ annotation, want string }{
		"the GPU that was chosen stays":       {right, ""},
		"another GPU is corrected":            {`{"version":"v1","containers":{"c":{"falldio.com/gpu-percent":["GPU-b"]}}}`, right},
		"shares one by one are corrected":     {`{"version":"v1","containers":{"c":{"falldio.com/gpu-percent":["GPU-a::0","GPU-a::1"]}}}`, right},
		"a whole GPU that was not given goes": {`{"version":"v1","containers":{"c":{"falldio.com/gpu":["GPU-b"],"falldio.com/gpu-percent":["GPU-a"]}}}`, right},
		"what is missing is added":            {"", right},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			corrections := Corrections(podresources.Assignments(has, []string{gpu, percent}), []*corev1.Pod{pod(test.annotation)}, []string{gpu, percent})
			if len(corrections) > 0 {
				got = corrections[0].Annotation
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("annotation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCorrectionsOfWhatLimitsShares(t *testing.T) {
	t.Parallel()
	const chosen = `{"version":"v1","containers":{"c":{"falldio.com/gpu-percent":["GPU-a"]}}}`
	with := func(enforcement string) string {
		return strings.TrimSuffix(chosen, "}") + `,"enforcement":` + enforcement + "}"
	}
	tests := map[string]struct {
		annotation string
		known      map[string]string
		want       string
	}{
		"what is known is added":                      {chosen, map[string]string{"c": "none"}, with(`{"c":"none"}`)},
		"what is recorded is not written again":       {with(`{"c":"none"}`), map[string]string{"c": "none"}, ""},
		"what is wrong is corrected":                  {with(`{"c":"mps"}`), map[string]string{"c": "none"}, with(`{"c":"none"}`)},
		"what was known stays":                        {with(`{"c":"mps"}`), nil, ""},
		"what is known of others stays":               {with(`{"d":"mps"}`), map[string]string{"c": "none"}, with(`{"c":"none","d":"mps"}`)},
		"what is no map is replaced":                  {with(`["mps"]`), map[string]string{"c": "none"}, with(`{"c":"none"}`)},
		"with the GPU, if that is missing, too":       {"", map[string]string{"c": "mps"}, with(`{"c":"mps"}`)},
		"a Pod of which nothing is known is as it is": {chosen, nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pod(test.annotation)
			api := fake.NewClientset(p)
			has := []podresources.Allocation{{Namespace: "ns", Pod: "p", Container: "c", Resource: percent, DeviceIDs: []string{"GPU-a::0"}}}
			known := map[types.NamespacedName]map[string]string{{Namespace: "ns", Name: "p"}: test.known, {Namespace: "ns", Name: "q"}: {"c": "mps"}}
			corrector := NewCorrector(func() []*corev1.Pod { return []*corev1.Pod{p} }, patchWith(api), []string{gpu, percent})
			if _, err := corrector.Correct(t.Context(), has, known); err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(api.Actions()) > 0 {
				changed, err := api.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				got = changed.Annotations[inventory.AssignmentAnnotation]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("annotation (-want +got):\n%s", diff)
			}
		})
	}
}

// patchWith has a client patch Pods.
func patchWith(client kubernetes.Interface) Patch {
	return func(ctx context.Context, pod types.NamespacedName, patch []byte) error {
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
}

const right = `{"version":"v1","containers":{"c":{"falldio.com/gpu":["1","2"]}}}`

func TestCorrections(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod *corev1.Pod
		// want is the new annotation; none if empty.
		want string
	}{
		"what is right stays":                      {pod(right), ""},
		"what is written otherwise stays":          {pod(` {"containers":{"c":{"falldio.com/gpu":["2","1","2"]},"d":{}},"version":"v1"}`), ""},
		"what is missing is added":                 {pod(""), right},
		"what is no JSON is replaced":              {pod("{"), right},
		"what is no object is replaced":            {pod(`["1"]`), right},
		"what has no version is given one":         {pod(`{"containers":{"c":{"falldio.com/gpu":["1","2"]}}}`), right},
		"a version of the future stays":            {pod(`{"version":"v2","devices":["1"]}`), ""},
		"so does one that is no text":              {pod(`{"version":2}`), ""},
		"devices that are no list are corrected":   {pod(`{"version":"v1","containers":{"c":{"falldio.com/gpu":"1"}}}`), right},
		"containers that are no map are corrected": {pod(`{"version":"v1","containers":[]}`), right},
		"other devices are corrected":              {pod(`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1","3"]}}}`), right},
		"another container is corrected":           {pod(`{"version":"v1","containers":{"d":{"falldio.com/gpu":["1","2"]}}}`), right},
		"a Pod without devices is left alone":      {pod("{", otherName), ""},
		"a Pod that has not started is left alone": {pod("", notStarted), ""},
		"other resources stay": {
			pod(`{"version":"v1","containers":{"c":{"falldio.com/gpu-percent":["7"]}}}`),
			`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1","2"],"falldio.com/gpu-percent":["7"]}}}`,
		},
		"unknown parts are preserved": {
			pod(`{"version":"v1","node":"<n>","containers":{"c":{"falldio.com/gpu":["1"],"slices":{"1":0.5}},"d":7},"chosen":{"by":1}}`),
			`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1","2"],"slices":{"1":0.5}},"d":7},"chosen":{"by":1},"node":"<n>"}`,
		},
		"a container that is no map is corrected": {pod(`{"version":"v1","containers":{"c":7}}`), right},
		"init containers may have what their Pod has": {
			pod(`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1"]},"i":{"falldio.com/gpu":["1"]}}}`, withInit(nil)),
			`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1","2"]},"i":{"falldio.com/gpu":["1"]}}}`,
		},
		"init containers may have all that their Pod has, and more": {
			pod(`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1","2"]},"i":{"falldio.com/gpu":["1","2","3"]}}}`, withInit(nil)), "",
		},
		"init containers can't have what their Pod did not get": {
			pod(`{"version":"v1","containers":{"c":{"falldio.com/gpu":["4","5"]},"i":{"falldio.com/gpu":["4","5"]}}}`, withInit(nil)), right,
		},
		"what init containers can't have goes alone": {
			pod(`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1","2"]},"i":{"falldio.com/gpu":["1","5"],"other.com/nic":["n"]}}}`, withInit(nil)),
			`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1","2"]},"i":{"falldio.com/gpu":["1"],"other.com/nic":["n"]}}}`,
		},
		"sidecars are known to the kubelet": {
			pod(`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1","2"]},"i":{"falldio.com/gpu":["3"]}}}`, withInit(new(corev1.ContainerRestartPolicyAlways))), right,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fake.NewClientset(test.pod)
			corrector := NewCorrector(func() []*corev1.Pod { return []*corev1.Pod{test.pod} }, patchWith(api), []string{gpu})
			corrected, err := corrector.Correct(t.Context(), given(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if writes := len(api.Actions()); writes != corrected || (corrected == 1) != (test.want != "") {
				t.Fatalf("%d corrections, %d writes", corrected, writes)
			}
			if corrected == 0 {
				return
			}
			got, err := api.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Annotations[inventory.AssignmentAnnotation]); diff != "" {
				t.Errorf("annotation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCorrectFails(t *testing.T) {
	t.Parallel()
	pods, kind := schema.GroupResource{Resource: "pods"}, schema.GroupKind{Kind: "Pod"}
	tests := map[string]struct {
		api  error
		want bool
	}{
		"if the API server doesn't answer": {errors.New("down"), true},
		"but not if the Pod has gone":      {apierrors.NewNotFound(pods, "p"), false},
		"but not if it is another one by now": {apierrors.NewInvalid(kind, "p", field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), "uid", "field is immutable"),
		}), false},
		"if the annotation is refused": {apierrors.NewInvalid(kind, "p", field.ErrorList{
			field.TooLong(field.NewPath("metadata", "annotations"), "", 1),
		}), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			patch := func(context.Context, types.NamespacedName, []byte) error {
				calls++
				return test.api
			}
			corrector := NewCorrector(func() []*corev1.Pod { return []*corev1.Pod{pod("")} }, patch, []string{gpu, percent})
			corrected, err := corrector.Correct(t.Context(), given(), nil)
			if (err != nil) != test.want || corrected != 0 || calls != 1 {
				t.Errorf("Correct() = %d, %v after %d calls", corrected, err, calls)
			}
		})
	}
}

func TestAForeignAnnotationIsToldOnce(t *testing.T) {
	t.Parallel()
	var lines []string
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	pods := []*corev1.Pod{pod(`{"version":"v2"}`)}
	corrector := NewCorrector(func() []*corev1.Pod { return pods }, nil, []string{gpu})
	for range 3 {
		if corrected, err := corrector.Correct(ctx, given(), nil); err != nil || corrected != 0 {
			t.Fatalf("Correct() = %d, %v", corrected, err)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], `"version"="v2"`) {
		t.Errorf("log = %q", lines)
	}
	pods[0].UID = "another"
	if _, err := corrector.Correct(ctx, given(), nil); err != nil || len(lines) != 2 {
		t.Errorf("log after a new Pod = %q, %v", lines, err)
	}
}

func TestTheSlicesOfAPodAreInItsAnnotation(t *testing.T) {
	t.Parallel()
	allocation := func(resource string, ids ...string) podresources.Allocation {
		return podresources.Allocation{Namespace: "ns", Pod: "p", Container: "c", Resource: resource, DeviceIDs: ids}
	}
	tests := map[string]struct {
		before      string
		allocations []podresources.Allocation
		want        string
	}{
		"of two profiles": {
			"", []podresources.Allocation{allocation("falldio.com/mig-1g.10gb", "MIG-a", "MIG-b"), allocation("falldio.com/mig-3g.40gb", "MIG-c")},
			`{"version":"v1","containers":{"c":{"falldio.com/mig-1g.10gb":["MIG-a","MIG-b"],"falldio.com/mig-3g.40gb":["MIG-c"]}}}`,
		},
		"others than were chosen": {
			`{"version":"v1","containers":{"c":{"falldio.com/mig-1g.10gb":["MIG-x"]}}}`, []podresources.Allocation{allocation("falldio.com/mig-1g.10gb", "MIG-a")},
			`{"version":"v1","containers":{"c":{"falldio.com/mig-1g.10gb":["MIG-a"]}}}`,
		},
		"that NVIDIA's device plugin has given out": {
			"", []podresources.Allocation{allocation("nvidia.com/mig-1g.10gb", "MIG-a")}, `{"version":"v1","containers":{"c":{"nvidia.com/mig-1g.10gb":["MIG-a"]}}}`,
		},
		"but no devices of others": {"", []podresources.Allocation{allocation("vendor.com/mig-1g.10gb", "MIG-a")}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fake.NewClientset(pod(test.before))
			corrector := NewCorrector(func() []*corev1.Pod { return []*corev1.Pod{pod(test.before)} }, patchWith(api), []string{gpu})
			if _, err := corrector.Correct(t.Context(), test.allocations, nil); err != nil {
				t.Fatal(err)
			}
			got, err := api.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Annotations[inventory.AssignmentAnnotation]); diff != "" {
				t.Errorf("annotation (-want +got):\n%s", diff)
			}
		})
	}
}
