// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelettest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// bothWays is an agent that serves ten GPUs as a whole and in shares.
type bothWays struct {
	*kubelet
	// client lists the kubelet's allocations.
	client        *podresources.Client
	whole, shares *instance
}

// startBothWays returns when the kubelet has all devices.
func startBothWays(t *testing.T, k *kubelet) *bothWays {
	t.Helper()
	client, err := podresources.NewClient(filepath.Join(k.machine.dir, "pod-resources"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	b := &bothWays{kubelet: k, client: client}
	tracker := deviceplugin.NewPodAllocationTracker(k.machine.knownPods, clock.RealClock{}, percent)
	usage := deviceplugin.NewUsage(client, clock.RealClock{}, gpus, percent)
	gpuPool := pool(t, tenGPUs())
	b.whole = k.machine.run(t, deviceplugin.Config{Resource: gpus, Counterpart: percent, Pool: gpuPool, Tracker: tracker, Usage: usage})
	b.shares = k.machine.run(t, deviceplugin.Config{
		Resource: percent, Counterpart: gpus, Pool: gpuPool, Tracker: tracker, Usage: usage, Sharing: &deviceplugin.Sharing{},
	})
	k.awaitAmount(t, gpus, amount{10, 10})
	k.awaitAmount(t, percent, amount{1000, 1000})
	return b
}

func newBothWays(t *testing.T) *bothWays {
	t.Helper()
	k := newMachine(t).startKubelet(t)
	k.servePodResources(t)
	return startBothWays(t, k)
}

func percentPod(name string, amount int64) *corev1.Pod {
	return newPod(name, map[string]int64{percent: amount})
}

// sharesOf returns a Pod's shares of a GPU, "46 of GPU-3".
func (b *bothWays) sharesOf(pod *corev1.Pod) string {
	ids := b.devices(pod, percent)
	return fmt.Sprintf("%d of %s", len(ids), strings.Join(share.GPUs(ids), " and "))
}

func (b *bothWays) mustHave(t *testing.T, pod *corev1.Pod, want string) {
	t.Helper()
	b.mustAdmit(t, pod)
	if got := b.sharesOf(pod); got != want {
		t.Errorf("%s has %s, want %s", pod.Name, got, want)
	}
}

// mustNotHave expects that the kubelet rejects a Pod, and removes it.
func (b *bothWays) mustNotHave(t *testing.T, pod *corev1.Pod, want string) {
	t.Helper()
	b.machine.bind(pod)
	defer b.machine.end(pod.UID)
	if err := b.admit(pod); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("admitting %s: got error %v, want %q", pod.Name, err, want)
	}
}

func TestSharesAreOfTheGPUThatWasChosen(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	first := assignOf(t, percent, percentPod("first", 46), gpuID(3))
	b.mustHave(t, first, "46 of GPU-3")
	b.mustHave(t, assignOf(t, percent, percentPod("second", 54), gpuID(3)), "54 of GPU-3")
	b.mustHave(t, assignOf(t, percent, percentPod("third", 100), gpuID(7)), "100 of GPU-7")
	b.mustHave(t, assignOf(t, percent, percentPod("too-late", 1), gpuID(3)), "1 of GPU-0")
	b.mustHave(t, percentPod("without-a-choice", 30), "30 of GPU-0")

	_, ctx := ktesting.NewTestContext(t)
	options, err := b.GetDeviceRunContainerOptions(ctx, first, &first.Spec.Containers[0])
	if err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{}
	for _, variable := range options.Envs {
		environment[variable.Name] = variable.Value
	}
	if diff := cmp.Diff(map[string]string{envVar: gpuID(3), "GPU_SHARE_PERCENT": "46"}, environment); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestAShareIsNotCombinedFromSeveralGPUs(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	for place := range 10 {
		b.mustHave(t, assignOf(t, percent, percentPod(fmt.Sprint("has-", place), 60), gpuID(place)), "60 of "+gpuID(place))
	}
	b.mustNotHave(t, percentPod("half", 50), "but a container gets a share of one GPU: no GPU has as much left")
	b.mustHave(t, percentPod("less", 40), "40 of GPU-0")
}

func TestAnInitContainersShareGoesToItsPod(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	for _, amount := range []int64{10, 46, 60} {
		pod := assignOf(t, percent, percentPod(fmt.Sprint("init-", amount), 46), gpuID(4))
		init := percentPod("", amount).Spec.Containers[0]
		init.Name = "init"
		pod.Spec.InitContainers = []corev1.Container{init}
		b.mustHave(t, pod, "46 of GPU-4")
		if got := share.GPUs(b.devicesOf(pod, "init", percent)); !cmp.Equal(got, gpuIDs(4)) {
			t.Errorf("the init container has shares of %v", got)
		}
		b.machine.end(pod.UID)
	}
}

func TestNoGPUIsAllocatedBothWays(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	whole := assign(t, gpuPod("whole", 2), gpuIDs(2, 3)...)
	b.mustAdmit(t, whole)
	b.mustNotHave(t, assignOf(t, percent, percentPod("part", 46), gpuID(3)),
		"GPU GPU-3 is in use as a whole by container gpu-task of Pod default/whole, so it can't be shared")
	sharer := assignOf(t, percent, percentPod("sharer", 46), gpuID(5))
	b.mustHave(t, sharer, "46 of GPU-5")
	b.mustNotHave(t, assign(t, gpuPod("all", 2), gpuIDs(4, 5)...),
		"shares of GPU GPU-5 are in use by container gpu-task of Pod default/sharer, so it can't be allocated as a whole")

	// Ended Pods block nothing, not even for a moment.
	b.machine.end(whole.UID)
	b.mustHave(t, assignOf(t, percent, percentPod("part-2", 46), gpuID(3)), "46 of GPU-3")
	b.machine.end(sharer.UID)
	all := assign(t, gpuPod("all-2", 2), gpuIDs(4, 5)...)
	b.mustAdmit(t, all)
	if diff := cmp.Diff(gpuIDs(4, 5), b.devices(all, gpus)); diff != "" {
		t.Errorf("whole GPUs (-want +got):\n%s", diff)
	}
}

// TestWithoutAChoiceBothWaysKeepApart has the stock scheduler fill a node.
func TestWithoutAChoiceBothWaysKeepApart(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	b.mustHave(t, percentPod("shares-0", 46), "46 of GPU-0")
	whole := gpuPod("whole", 8)
	b.mustAdmit(t, whole)
	if diff := cmp.Diff(gpuIDs(2, 3, 4, 5, 6, 7, 8, 9), b.devices(whole, gpus)); diff != "" {
		t.Errorf("whole GPUs (-want +got):\n%s", diff)
	}
	b.mustHave(t, percentPod("shares-1", 60), "60 of GPU-1")
	b.mustHave(t, percentPod("shares-2", 54), "54 of GPU-0")
	b.mustNotHave(t, percentPod("more", 41), "in use as a whole by container gpu-task of Pod default/whole")
	b.mustNotHave(t, gpuPod("more-2", 1), "so it can't be allocated as a whole")
}

func TestSharesOutliveTheAgent(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	sharer := assignOf(t, percent, percentPod("sharer", 46), gpuID(3))
	b.mustHave(t, sharer, "46 of GPU-3")
	before := b.devices(sharer, percent)
	b.whole.stop()
	b.shares.stop()
	b.awaitAmount(t, percent, amount{1000, 0})

	again := startBothWays(t, b.kubelet)
	if diff := cmp.Diff(before, again.devices(sharer, percent)); diff != "" {
		t.Errorf("shares of the running Pod (-before +after):\n%s", diff)
	}
	if err := again.admit(sharer); err != nil {
		t.Errorf("its container can't restart: %v", err)
	}
	again.mustNotHave(t, assign(t, gpuPod("whole", 1), gpuIDs(3)...), "shares of GPU GPU-3 are in use by container gpu-task of Pod default/sharer")
	again.mustHave(t, assignOf(t, percent, percentPod("second", 54), gpuID(3)), "54 of GPU-3")
}

func TestTheTopologyManagerChoosesAmongSharesToo(t *testing.T) {
	t.Parallel()
	mask, err := bitmask.NewBitMask(1)
	if err != nil {
		t.Fatal(err)
	}
	k := newMachine(t).startKubeletWith(t, topologymanager.NewFakeManagerWithHint(klog.Background(), &topologymanager.TopologyHint{NUMANodeAffinity: mask, Preferred: true}))
	k.servePodResources(t)
	b := startBothWays(t, k)
	b.mustHave(t, percentPod("near", 46), "46 of GPU-6")
	b.mustHave(t, assignOf(t, percent, percentPod("chosen", 46), gpuID(8)), "46 of GPU-8")
}

func TestTheAnnotationOfAShareIsCorrected(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	right := assignOf(t, percent, percentPod("right", 46), gpuID(3))
	// The GPU chosen for this one has too little left.
	wrong := assignOf(t, percent, percentPod("wrong", 60), gpuID(3))
	pods := []*corev1.Pod{right, wrong}
	b.mustHave(t, right, "46 of GPU-3")
	b.mustHave(t, wrong, "60 of GPU-0")
	truth, err := b.client.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkCorrections(t, truth, pods, wrong, `{"gpu-task":{"falldio.com/gpu-percent":["GPU-0"]}}`)
}
