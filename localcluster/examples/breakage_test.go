// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// newBreakage has a Pod of the task "x" on node "n", which has the second of two GPUs.
func newBreakage(t *testing.T) *breakage {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
		inventory.Annotation: `{"version":"v1","gpus":[{"index":0,"uuid":"GPU-a","health":"Healthy"},{"index":1,"uuid":"GPU-b","health":"Healthy"}]}`,
	}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default", Labels: map[string]string{v1.LabelTask: "x"}, Annotations: map[string]string{
			inventory.AssignmentAnnotation: `{"version":"v1","containers":{"gpu-task":{"falldio.com/gpu":["GPU-b"]}}}`,
		}},
		Spec: corev1.PodSpec{NodeName: "n"},
	}
	return &breakage{kube: fake.NewClientset(node, pod), namespace: "default", faults: filepath.Join(t.TempDir(), "faults.yaml"), broken: map[string]bool{}}
}

func taskThatBreaks(phase v1.GPUTaskPhase, xid string) *v1.GPUTask {
	return &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{AnnotationBreakGPU: xid}},
		Status:     v1.GPUTaskStatus{Phase: phase},
	}
}

func TestAGPUOfARunningExampleIsBrokenOnce(t *testing.T) {
	t.Parallel()
	b := newBreakage(t)
	for _, step := range []struct {
		task   *v1.GPUTask
		breaks bool
	}{
		{taskThatBreaks(v1.PhasePending, "79"), false},
		{taskThatBreaks(v1.PhaseRunning, ""), false},
		{taskThatBreaks(v1.PhaseRunning, "79"), true},
		{taskThatBreaks(v1.PhaseRunning, "79"), false},
	} {
		gpu, err := b.breakFor(t.Context(), step.task)
		if err != nil || (gpu != nil) != step.breaks {
			t.Errorf("phase %s: %+v, error %v, want %t", step.task.Status.Phase, gpu, err, step.breaks)
		}
	}
	content, err := os.ReadFile(b.faults)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("- {node: n, gpu: 1, fault: XID, xid: 79}\n", string(content)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestAnExampleWithoutANumberOfAnXID(t *testing.T) {
	t.Parallel()
	_, err := newBreakage(t).breakFor(t.Context(), taskThatBreaks(v1.PhaseRunning, "hard"))
	if err == nil || !strings.Contains(err.Error(), `"hard" is not the number of an XID`) {
		t.Errorf("error %v", err)
	}
}
