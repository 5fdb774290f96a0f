// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/metrics"
)

func holder(pod string, percent int) metrics.Holder {
	return metrics.Holder{Namespace: "research", Pod: pod, Container: "gpu-task", Resource: "falldio.com/gpu-percent", Percent: percent}
}

func TestOfWhichGPUsProcessesAreRead(t *testing.T) {
	t.Parallel()
	holders := map[string][]metrics.Holder{
		"whole": {holder("a", 100)}, "part": {holder("a", 46)}, "parts": {holder("a", 46), holder("b", 54)}, "twice": {holder("a", 100), holder("b", 100)},
	}
	yes := func(context.Context) (bool, error) { return true, nil }
	no := func(context.Context) (bool, error) { return false, nil }
	tests := map[string]struct {
		which string
		sees  func(context.Context) (bool, error)
		want  string
	}{
		"shared":                                {processesShared, yes, "part parts twice"},
		"all that are held":                     {processesAll, yes, "part parts twice whole"},
		"off":                                   {processesOff, yes, ""},
		"the node's processes can't be seen":    {processesAll, no, ""},
		"it is not known whether they are seen": {processesAll, func(context.Context) (bool, error) { return true, errors.New("no kubelet") }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			use := &containerUse{which: test.which, seesNode: test.sees, holders: func(uuid string) []metrics.Holder { return holders[uuid] }}
			if use.wanted("part") {
				t.Error("processes are read before it is known whether they can be seen")
			}
			use.settle(t.Context())
			var wanted []string
			for _, uuid := range []string{"free", "part", "parts", "twice", "whole"} {
				if use.wanted(uuid) {
					wanted = append(wanted, uuid)
				}
			}
			if got := strings.Join(wanted, " "); got != test.want {
				t.Errorf("read of %q, want %q", got, test.want)
			}
		})
	}
}

func TestWhetherProcessesCanBeSeenIsFoundOutOnce(t *testing.T) {
	t.Parallel()
	asked := 0
	answer := errors.New("no kubelet")
	use := &containerUse{which: processesShared, seesNode: func(context.Context) (bool, error) {
		asked++
		return true, answer
	}}
	use.settle(t.Context())
	answer = nil
	use.settle(t.Context())
	use.settle(t.Context())
	if asked != 2 || !use.visible.Load() {
		t.Errorf("asked %d times, visible: %v", asked, use.visible.Load())
	}
}

func TestWhatContainersUse(t *testing.T) {
	t.Parallel()
	const id, uid = "8f3b5c2d1e4a69788796a5b4c3d2e1f08f3b5c2d1e4a69788796a5b4c3d2e1f0", "2f6b1c5e-8a1d-4f0b-9c3e-5d7e9f1a2b3c"
	holders := []metrics.Holder{holder("train", 46), holder("serve", 54)}
	use := &containerUse{
		holders: func(string) []metrics.Holder { return holders },
		pods: func() []*corev1.Pod {
			return []*corev1.Pod{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "train", UID: uid},
				Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "gpu-task", ContainerID: "containerd://" + id}}},
			}}
		},
		proc: fstest.MapFS{
			"10/cgroup": {Data: []byte("0::/kubepods/pod" + uid + "/" + id + "\n")},
			"20/cgroup": {Data: []byte("0::/system.slice/nvidia-mps.service\n")},
		},
	}
	if got := use.Of("GPU-a"); got != nil {
		t.Errorf("before a poll: %v", got)
	}
	values := func(bytes float64) gpu.Values { return gpu.Values{gpu.MemoryUsed: bytes} }
	snapshot := &gpu.Snapshot{Devices: []gpu.Device{
		{Info: gpu.Info{UUID: "GPU-a"}, Processes: &gpu.ProcessSample{
			Measured:  []gpu.Quantity{gpu.MemoryUsed},
			Processes: []gpu.Process{{PID: 10, Values: values(5)}, {PID: 20, Values: values(1)}, {PID: 30, Values: values(2)}}, // 30 has ended
		}},
		{Info: gpu.Info{UUID: "GPU-b"}},
	}}
	use.observe(snapshot)
	train := metrics.ContainerUse{Namespace: "research", Pod: "train", Container: "gpu-task", Processes: 1, Values: values(5)}
	serve := metrics.ContainerUse{Namespace: "research", Pod: "serve", Container: "gpu-task", Values: values(0)}
	expect := func(what string, want ...metrics.ContainerUse) {
		t.Helper()
		if diff := cmp.Diff(want, use.Of("GPU-a")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("after a poll", train, serve, metrics.ContainerUse{Container: metrics.Others, Processes: 2, Values: values(3)})
	if got := use.Of("GPU-b"); got != nil {
		t.Errorf("of a GPU whose processes were not read: %v", got)
	}

	holders = holders[1:]
	expect("without the first Pod", serve, metrics.ContainerUse{Container: metrics.Others, Processes: 3, Values: values(8)})

	use.observe(&gpu.Snapshot{Devices: []gpu.Device{{Info: gpu.Info{UUID: "GPU-a"}}}})
	expect("after a poll that read none")
}
