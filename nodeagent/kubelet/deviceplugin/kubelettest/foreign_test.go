// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelettest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
)

const nvidiaGPUs = "nvidia.com/gpu"

// The kubelet knows two resources, not that they are the same cards.
func TestACardThatAnotherPluginHasGivenOutIsNotGivenAwayAgain(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	b.machine.start(t, nvidiaGPUs, pool(t, tenGPUs()))
	b.awaitAmount(t, nvidiaGPUs, amount{10, 10})
	theirs := assignOf(t, nvidiaGPUs, newPod("theirs", map[string]int64{nvidiaGPUs: 2}), gpuID(4), gpuID(5))
	b.mustAdmit(t, theirs)

	const refused = "is in use by container gpu-task of Pod default/theirs as nvidia.com/gpu: somebody else gives out the GPUs of this node, too"
	b.mustNotHave(t, assignOf(t, gpus, gpuPod("wants-it", 1), gpuID(4)), refused)
	b.mustNotHave(t, assignOf(t, percent, percentPod("wants-part", 30), gpuID(5)), refused)
	b.mustNotHave(t, gpuPod("wants-nine", 9), refused)
	// Those that are left are given out as before.
	eight := gpuPod("eight", 8)
	b.mustAdmit(t, eight)
	if diff := cmp.Diff(gpuIDs(0, 1, 2, 3, 6, 7, 8, 9), b.devices(eight, gpus)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	b.machine.end(eight.UID)
	b.machine.end(theirs.UID)
	b.mustAdmit(t, gpuPod("ten", 10))
}

func TestTheContainerRuntimeIsToldOfCDIDevices(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	m.run(t, deviceplugin.Config{
		Resource: gpus, Pool: pool(t, tenGPUs()), CDIKind: func() string { return "falldio.com/gpu" },
		Tracker: deviceplugin.NewPodAllocationTracker(m.knownPods, clock.RealClock{}),
	})
	k.awaitAmount(t, gpus, amount{10, 10})
	pod := assign(t, gpuPod("two", 2), gpuIDs(2, 3)...)
	k.mustAdmit(t, pod)
	_, ctx := ktesting.NewTestContext(t)
	options, err := k.GetDeviceRunContainerOptions(ctx, pod, &pod.Spec.Containers[0])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, device := range options.CDIDevices {
		names = append(names, device.Name)
	}
	if diff := cmp.Diff([]string{"falldio.com/gpu=GPU-2", "falldio.com/gpu=GPU-3"}, names); diff != "" {
		t.Errorf("CDI devices (-want +got):\n%s", diff)
	}
}
