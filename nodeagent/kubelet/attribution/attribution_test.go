// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cgroup"
)

func statusOf(name, id string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, ContainerID: id}
}

func TestFind(t *testing.T) {
	t.Parallel()
	containers := NewContainers([]*corev1.Pod{
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "train", UID: "uid-1"},
			Status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{statusOf("sidecar", "containerd://id-2")},
				ContainerStatuses:     []corev1.ContainerStatus{statusOf("gpu-task", "containerd://id-1"), statusOf("waits", "")},
			},
		},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "serve", UID: "uid-2"}},
	})
	tests := map[string]struct {
		group cgroup.Container
		want  Container
		found bool
	}{
		"by its ID":                            {cgroup.Container{ID: "id-1", Pod: "uid-1"}, Container{"research", "train", "gpu-task"}, true},
		"by its ID alone":                      {cgroup.Container{ID: "id-1"}, Container{"research", "train", "gpu-task"}, true},
		"one that began as an init container":  {cgroup.Container{ID: "id-2", Pod: "uid-1"}, Container{"research", "train", "sidecar"}, true},
		"of a static Pod":                      {cgroup.Container{ID: "id-1", Pod: "checksum"}, Container{"research", "train", "gpu-task"}, true},
		"one that is not in the status yet":    {cgroup.Container{ID: "id-9", Pod: "uid-2"}, Container{"prod", "serve", ""}, true},
		"of a Pod that has been deleted":       {cgroup.Container{ID: "id-9", Pod: "uid-9"}, Container{}, false},
		"a process that is in none":            {cgroup.Container{}, Container{}, false},
		"in the group of a Pod, not its own":   {cgroup.Container{Pod: "uid-2"}, Container{"prod", "serve", ""}, true},
		"an ID like the empty one in a status": {cgroup.Container{ID: "", Pod: types.UID("uid-9")}, Container{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, found := containers.Find(test.group); got != test.want || found != test.found {
				t.Errorf("%+v, %v, want %+v, %v", got, found, test.want, test.found)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	var (
		train  = Container{"research", "train", "gpu-task"}
		helper = Container{"research", "train", "helper"}
		serve  = Container{"prod", "serve", "main"}
	)
	const gib = 1 << 30
	containers := map[int]Container{
		1: train, 2: train, 3: serve, 4: {"research", "train", ""}, 5: {"prod", "serve", ""}, 6: {"prod", "another", "main"},
	}
	containerOf := func(pid int) (Container, bool) {
		container, found := containers[pid]
		return container, found
	}
	process := func(pid int, memory, utilization float64) gpu.Process {
		return gpu.Process{PID: pid, Values: gpu.Values{gpu.MemoryUsed: memory, gpu.Utilization: utilization}}
	}
	use := func(processes int, memory, utilization float64) Use {
		return Use{processes, gpu.Values{gpu.MemoryUsed: memory, gpu.Utilization: utilization}}
	}
	both := []gpu.Quantity{gpu.MemoryUsed, gpu.Utilization}
	tests := map[string]struct {
		measured  []gpu.Quantity
		processes []gpu.Process
		holders   []Container
		want      []Use
		others    Use
	}{
		"the processes of a container are added up": {
			both, []gpu.Process{process(1, gib, 0.5), process(2, 2*gib, 0.25), process(3, gib, 0)}, []Container{train, serve},
			[]Use{use(2, 3*gib, 0.75), use(1, gib, 0)}, Use{},
		},
		"a holder without processes uses nothing": {
			both, nil, []Container{train}, []Use{use(0, 0, 0)}, Use{},
		},
		"what is not measured is missing": {
			[]gpu.Quantity{gpu.MemoryUsed}, []gpu.Process{{PID: 1, Values: gpu.Values{gpu.MemoryUsed: gib}}}, []Container{train},
			[]Use{{1, gpu.Values{gpu.MemoryUsed: gib}}}, Use{},
		},
		"whoever does not hold the GPU is one of the others, as is what is in no container": {
			both, []gpu.Process{process(6, gib, 0.1), process(7, gib, 0.2)}, []Container{train},
			[]Use{use(0, 0, 0)}, use(2, 2*gib, 0.1+0.2),
		},
		"the only holder in a Pod gets what is the Pod's": {
			both, []gpu.Process{process(4, gib, 0.5), process(5, 2*gib, 0.25)}, []Container{train, serve},
			[]Use{use(1, gib, 0.5), use(1, 2*gib, 0.25)}, Use{},
		},
		"of several holders in a Pod none does": {
			both, []gpu.Process{process(4, gib, 0.5), process(1, gib, 0)}, []Container{train, helper},
			[]Use{use(1, gib, 0), use(0, 0, 0)}, use(1, gib, 0.5),
		},
		"three holders in a Pod are several, too": {
			both, []gpu.Process{process(4, gib, 0.5)}, []Container{train, helper, {"research", "train", "third"}},
			[]Use{use(0, 0, 0), use(0, 0, 0), use(0, 0, 0)}, use(1, gib, 0.5),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			usage := Sum(&gpu.ProcessSample{Measured: test.measured, Processes: test.processes}, containerOf)
			uses, others := usage.Split(test.holders)
			approximately := cmpopts.EquateApprox(1e-12, 0)
			if diff := cmp.Diff(test.want, uses, approximately); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.others, others, approximately); diff != "" {
				t.Errorf("others (-want +got):\n%s", diff)
			}
		})
	}
}
