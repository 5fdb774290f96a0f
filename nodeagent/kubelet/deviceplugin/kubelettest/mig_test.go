// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelettest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/allocation"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

const (
	smallSlices  = "falldio.com/mig-1g.10gb"
	halves       = "falldio.com/mig-3g.40gb"
	nvidiaSlices = "nvidia.com/mig-1g.10gb"
)

// sliced is an agent that serves the slices of GPU-0 to GPU-2, and eight whole GPUs.
type sliced struct {
	*kubelet
	config               deviceplugin.Config
	smallPool, halfPool  *deviceplugin.Pool
	small, half, ofWhole *instance
}

// migSlices returns slices by their IDs, "MIG-0-1" being a slice of GPU-0. One with a minus is
// unhealthy.
func migSlices(ids ...string) []deviceplugin.Device {
	var devices []deviceplugin.Device
	for _, id := range ids {
		name, broken := strings.CutPrefix(id, "-")
		devices = append(devices, deviceplugin.Device{ID: name, Healthy: !broken, NVLinkGroup: allocation.Unknown, NUMANode: 0})
	}
	return devices
}

// gpuOfEach returns the GPU of each slice.
func gpuOfEach() map[string]string {
	of := map[string]string{}
	for _, id := range []string{"MIG-0-1", "MIG-0-2", "MIG-0-half", "MIG-1-1", "MIG-1-2", "MIG-1-3", "MIG-2-half"} {
		of[id] = "GPU-" + strings.Split(id, "-")[1]
	}
	return of
}

func newSliced(t *testing.T) *sliced {
	t.Helper()
	m := newMachine(t)
	k := m.startKubelet(t)
	k.servePodResources(t)
	client, err := podresources.NewClient(filepath.Join(m.dir, "pod-resources"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s := &sliced{
		kubelet: k, smallPool: pool(t, migSlices("MIG-0-1", "MIG-0-2", "MIG-1-1", "MIG-1-2", "MIG-1-3")), halfPool: pool(t, migSlices("MIG-0-half", "MIG-2-half")),
		config: deviceplugin.Config{
			Tracker: deviceplugin.NewPodAllocationTracker(m.knownPods, clock.RealClock{}), CDIKind: func() string { return "falldio.com/gpu" },
			Usage: deviceplugin.NewUsage(client, clock.RealClock{}, gpus),
		},
	}
	s.small, s.half = s.serve(t, smallSlices, s.smallPool), s.serve(t, halves, s.halfPool)
	whole := s.config
	whole.Resource, whole.Pool = gpus, pool(t, tenGPUs()[2:])
	s.ofWhole = m.run(t, whole)
	k.awaitAmount(t, smallSlices, amount{5, 5})
	k.awaitAmount(t, halves, amount{2, 2})
	k.awaitAmount(t, gpus, amount{8, 8})
	return s
}

// serve runs a plugin of slices.
func (s *sliced) serve(t *testing.T, resource string, pool *deviceplugin.Pool) *instance {
	t.Helper()
	config := s.config
	config.Resource, config.Pool, config.Slicing = resource, pool, &deviceplugin.Slicing{GPUs: gpuOfEach}
	return s.machine.run(t, config)
}

func slicePod(name, resource string, amount int64) *corev1.Pod {
	return newPod(name, map[string]int64{resource: amount})
}

// cdiDevices returns the CDI devices that the runtime is told to give a Pod's container.
func (k *kubelet) cdiDevices(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	options, err := k.GetDeviceRunContainerOptions(ctx, pod, &pod.Spec.Containers[0])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, device := range options.CDIDevices {
		names = append(names, device.Name)
	}
	return names
}

func TestAPodGetsAsManySlicesAsItRequests(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	half := slicePod("half", halves, 1)
	s.mustAdmit(t, half)
	if diff := cmp.Diff([]string{"MIG-0-half"}, s.devices(half, halves)); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	two := slicePod("two", smallSlices, 2)
	s.mustAdmit(t, two)
	// Of the GPU that is in use already.
	if diff := cmp.Diff([]string{"MIG-0-1", "MIG-0-2"}, s.devices(two, smallSlices)); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"falldio.com/gpu=MIG-0-1", "falldio.com/gpu=MIG-0-2"}, s.cdiDevices(t, two)); diff != "" {
		t.Errorf("CDI devices (-want +got):\n%s", diff)
	}
	if got := s.devices(two, gpus); len(got) > 0 {
		t.Errorf("it has the GPUs %v besides", got)
	}
	rest := slicePod("rest", smallSlices, 3)
	s.mustAdmit(t, rest)
	if diff := cmp.Diff([]string{"MIG-1-1", "MIG-1-2", "MIG-1-3"}, s.devices(rest, smallSlices)); diff != "" {
		t.Errorf("slices of the last Pod (-want +got):\n%s", diff)
	}
	none := slicePod("none", smallSlices, 1)
	s.machine.bind(none)
	if err := s.admit(none); err == nil {
		t.Errorf("a slice was given out twice: %v", s.devices(none, smallSlices))
	}
}

func TestTheFaultOfAGPUTakesItsSlicesOnly(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	works := slicePod("works", smallSlices, 2)
	s.mustAdmit(t, works)
	set(t, s.smallPool, migSlices("-MIG-0-1", "-MIG-0-2", "MIG-1-1", "MIG-1-2", "MIG-1-3"))
	set(t, s.halfPool, migSlices("-MIG-0-half", "MIG-2-half"))
	s.awaitAmount(t, smallSlices, amount{5, 3})
	s.awaitAmount(t, halves, amount{2, 1})
	next := slicePod("next", smallSlices, 3)
	s.mustAdmit(t, next)
	if diff := cmp.Diff([]string{"MIG-1-1", "MIG-1-2", "MIG-1-3"}, s.devices(next, smallSlices)); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	if got := s.devices(works, smallSlices); len(got) != 2 {
		t.Errorf("the running Pod has %v", got)
	}
}

func TestARestartedPluginKeepsSlicesThatAreHeld(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	pod := slicePod("works", smallSlices, 2)
	s.mustAdmit(t, pod)
	before := s.devices(pod, smallSlices)
	s.small.stop()
	s.awaitAmount(t, smallSlices, amount{5, 0})
	s.serve(t, smallSlices, s.smallPool)
	s.awaitAmount(t, smallSlices, amount{5, 5})
	if diff := cmp.Diff(before, s.devices(pod, smallSlices)); diff != "" {
		t.Errorf("slices of the running Pod (-before +after):\n%s", diff)
	}
	if err := s.admit(pod); err != nil {
		t.Errorf("the container can't restart: %v", err)
	}
	other := slicePod("other", smallSlices, 3)
	s.mustAdmit(t, other)
	for _, id := range s.devices(other, smallSlices) {
		if id == before[0] || id == before[1] {
			t.Errorf("%s was given out twice", id)
		}
	}
}

// GPU-0 is divided anew while a container has a slice of GPU-1.
func TestAProfileWithoutSlicesCountsZero(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	pod := assignOf(t, smallSlices, slicePod("works", smallSlices, 1), "MIG-1-2")
	s.mustAdmit(t, pod)
	if diff := cmp.Diff([]string{"MIG-1-2"}, s.devices(pod, smallSlices)); diff != "" {
		t.Fatalf("what the scheduler chose (-want +got):\n%s", diff)
	}
	set(t, s.halfPool, nil)
	s.halfPool.Release()
	s.awaitAmount(t, halves, amount{0, 0})
	set(t, s.smallPool, nil)
	s.smallPool.Release("MIG-1-2")
	s.awaitAmount(t, smallSlices, amount{1, 0})
	s.machine.end(pod.UID)
	s.smallPool.Release()
	s.awaitAmount(t, smallSlices, amount{0, 0})

	set(t, s.halfPool, migSlices("MIG-2-half"))
	s.awaitAmount(t, halves, amount{1, 1})
	s.mustAdmit(t, slicePod("half", halves, 1))
}

func TestASliceThatAnotherPluginHasGivenOutIsNotGivenAwayAgain(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.machine.start(t, nvidiaSlices, pool(t, migSlices("MIG-0-1", "MIG-0-2")))
	s.awaitAmount(t, nvidiaSlices, amount{2, 2})
	s.mustAdmit(t, assignOf(t, nvidiaSlices, slicePod("theirs", nvidiaSlices, 1), "MIG-0-1"))
	const refused = "GPU MIG-0-1 is in use by container gpu-task of Pod default/theirs as nvidia.com/mig-1g.10gb"
	wants := assignOf(t, smallSlices, slicePod("wants-it", smallSlices, 1), "MIG-0-1")
	s.machine.bind(wants)
	if err := s.admit(wants); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("error %v", err)
	}
	s.machine.end(wants.UID)
	four := slicePod("four", smallSlices, 4)
	s.mustAdmit(t, four)
	if diff := cmp.Diff([]string{"MIG-0-2", "MIG-1-1", "MIG-1-2", "MIG-1-3"}, s.devices(four, smallSlices)); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
}
