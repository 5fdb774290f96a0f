// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelettest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2/ktesting"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
)

func TestPodsGetDevicesWhileThereAreEnough(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	plugin := m.start(t, gpus, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})

	eight := gpuPod("eight", 8)
	k.mustAdmit(t, eight)
	three := gpuPod("three", 3)
	m.bind(three)
	if err := k.admit(three); err == nil || !strings.Contains(err.Error(), "Requested: 3, Available: 2") {
		t.Errorf("3 of 2 devices: %v", err)
	}
	m.end(three.UID)
	want := []entry{{
		PodUID: string(eight.UID), ContainerName: "gpu-task", ResourceName: gpus,
		DeviceIDs: map[string][]string{"0": gpuIDs(0, 1, 2, 3, 4, 5), "1": gpuIDs(6, 7)},
	}}
	if diff := cmp.Diff(want, m.checkpoint(t)); diff != "" {
		t.Errorf("checkpoint (-want +got):\n%s", diff)
	}
	_, ctx := ktesting.NewTestContext(t)
	options, err := k.GetDeviceRunContainerOptions(ctx, eight, &eight.Spec.Containers[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(options.Envs) != 1 || options.Envs[0].Name != envVar || options.Envs[0].Value != strings.Join(gpuIDs(0, 1, 2, 3, 4, 5, 6, 7), ",") {
		t.Errorf("environment = %+v", options.Envs)
	}
	if got := plugin.Status().Allocations; got != 1 {
		t.Errorf("%d allocations are counted", got)
	}

	m.end(eight.UID)
	k.mustAdmit(t, gpuPod("ten", 10))
}

func TestHealthIsAdvertised(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	devices := tenGPUs()
	p := pool(t, devices)
	m.start(t, gpus, p)
	k.awaitAmount(t, gpus, amount{10, 10})

	devices[3].Healthy = false
	set(t, p, devices)
	k.awaitAmount(t, gpus, amount{10, 9})
	pod := gpuPod("all-that-work", 9)
	k.mustAdmit(t, pod)
	if diff := cmp.Diff(gpuIDs(0, 1, 2, 4, 5, 6, 7, 8, 9), k.devices(pod, gpus)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	devices[3].Healthy = true
	set(t, p, devices)
	k.awaitAmount(t, gpus, amount{10, 10})
}

func TestADeviceThatVanishesStaysInTheList(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	p := pool(t, tenGPUs())
	m.start(t, gpus, p)
	k.awaitAmount(t, gpus, amount{10, 10})

	set(t, p, tenGPUs()[:9])
	k.awaitAmount(t, gpus, amount{10, 9})
	set(t, p, tenGPUs())
	k.awaitAmount(t, gpus, amount{10, 10})
}

func TestADeviceThatAContainerHoldsIsInTheList(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	p := deviceplugin.NewPool()
	p.Hold("GPU-9", "GPU-that-was")
	set(t, p, tenGPUs())
	m.start(t, gpus, p)
	k.awaitAmount(t, gpus, amount{11, 10})
}

func TestTwoResources(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	m.start(t, gpus, pool(t, tenGPUs()))
	m.start(t, rdma, pool(t, deviceplugin.Counted("rdma", 10)))
	k.awaitAmount(t, gpus, amount{10, 10})
	k.awaitAmount(t, rdma, amount{10, 10})

	pod := newPod("both", map[string]int64{gpus: 2, rdma: 10})
	k.mustAdmit(t, pod)
	if diff := cmp.Diff(gpuIDs(6, 7), k.devices(pod, gpus)); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	if got := k.devices(pod, rdma); len(got) != 10 {
		t.Errorf("RDMA devices = %v", got)
	}
	if entries := m.checkpoint(t); len(entries) != 2 {
		t.Errorf("checkpoint = %+v", entries)
	}
	other := newPod("other", map[string]int64{gpus: 2, rdma: 1})
	m.bind(other)
	if err := k.admit(other); err == nil {
		t.Error("the eleventh RDMA device was allocated")
	}
}
