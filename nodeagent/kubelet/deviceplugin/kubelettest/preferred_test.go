// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelettest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

func TestTheKubeletTakesWhatThePluginPrefers(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	m.start(t, gpus, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})
	steps := []struct {
		what string
		pod  *corev1.Pod
		want []string
	}{
		{"a single GPU breaks a pair on the smaller NUMA node", gpuPod("one", 1), gpuIDs(6)},
		{"the next one completes it", gpuPod("another", 1), gpuIDs(7)},
		{"two are a pair", gpuPod("two", 2), gpuIDs(8, 9)},
		{"the scheduler's choice is preferred", assign(t, gpuPod("chosen", 2), gpuIDs(2, 4)...), gpuIDs(2, 4)},
	}
	for _, step := range steps {
		k.mustAdmit(t, step.pod)
		if diff := cmp.Diff(step.want, k.devices(step.pod, gpus)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
}

func TestDevicesChosenForPendingPodsAreKept(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	m.start(t, gpus, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})
	older, newer := assign(t, gpuPod("older", 2), gpuIDs(6, 7)...), assign(t, gpuPod("newer", 2), gpuIDs(0, 1)...)
	newer.CreationTimestamp = metav1.Unix(1000, 0)
	m.bind(newer, older)

	// A Pod of another size gets neither, although the pair 6, 7 would be the
	// best to break.
	stranger := gpuPod("stranger", 1)
	k.mustAdmit(t, stranger)
	if diff := cmp.Diff(gpuIDs(8), k.devices(stranger, gpus)); diff != "" {
		t.Errorf("devices of a stranger (-want +got):\n%s", diff)
	}
	for _, pod := range []*corev1.Pod{older, newer} {
		if err := k.admit(pod); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(gpuIDs(6, 7), k.devices(older, gpus)); diff != "" {
		t.Errorf("devices of the older Pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(gpuIDs(0, 1), k.devices(newer, gpus)); diff != "" {
		t.Errorf("devices of the newer Pod (-want +got):\n%s", diff)
	}
}

// TestAnInitContainerGetsDevicesChosenForItsPod has the kubelet reuse the init container's
// devices for the app: they must be among those chosen for the app.
func TestAnInitContainerGetsDevicesChosenForItsPod(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		init     int64
		wantInit []string
	}{
		"with less": {1, gpuIDs(2)}, "with as much": {2, gpuIDs(2, 5)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			k := m.startKubelet(t)
			m.start(t, gpus, pool(t, tenGPUs()))
			k.awaitAmount(t, gpus, amount{10, 10})
			pod := assign(t, withInit(gpuPod("app", 2), test.init), gpuIDs(2, 5)...)
			next := assign(t, gpuPod("next", 2), gpuIDs(0, 9)...)
			next.CreationTimestamp = metav1.Unix(1000, 0)
			m.bind(next)
			k.mustAdmit(t, pod)
			if err := k.admit(next); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.wantInit, k.devicesOf(pod, "init", gpus)); diff != "" {
				t.Errorf("devices of the init container (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(gpuIDs(2, 5), k.devices(pod, gpus)); diff != "" {
				t.Errorf("devices of the app (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(gpuIDs(0, 9), k.devices(next, gpus)); diff != "" {
				t.Errorf("devices of the next Pod (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAPodThatTheAgentDoesNotKnowYet checks that such a Pod does not shift the choices to
// the Pods after it.
func TestAPodThatTheAgentDoesNotKnowYet(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	m.start(t, gpus, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})
	missed := assign(t, gpuPod("missed", 2), gpuIDs(0, 1)...)
	m.delay(missed, true)
	k.mustAdmit(t, missed)
	if diff := cmp.Diff(gpuIDs(6, 7), k.devices(missed, gpus)); diff != "" {
		t.Errorf("devices of the Pod that was missed (-want +got):\n%s", diff)
	}
	m.delay(missed, false)
	for place, name := range []string{"second", "third"} {
		want := gpuIDs(2+place, 4+place)
		pod := assign(t, gpuPod(name, 2), want...)
		pod.CreationTimestamp = metav1.Unix(int64(1000+place), 0)
		k.mustAdmit(t, pod)
		if diff := cmp.Diff(want, k.devices(pod, gpus)); diff != "" {
			t.Errorf("devices of the %s Pod (-want +got):\n%s", name, diff)
		}
	}
}

// TestTheTopologyManagerTakesPrecedence has the kubelet insist on a NUMA node, so that the
// plugin chooses among its devices.
func TestTheTopologyManagerTakesPrecedence(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	mask, err := bitmask.NewBitMask(0)
	if err != nil {
		t.Fatal(err)
	}
	k := m.startKubeletWith(t, topologymanager.NewFakeManagerWithHint(klog.Background(), &topologymanager.TopologyHint{NUMANodeAffinity: mask, Preferred: true}))
	m.start(t, gpus, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})
	pod := gpuPod("two", 2)
	k.mustAdmit(t, pod)
	if diff := cmp.Diff(gpuIDs(0, 1), k.devices(pod, gpus)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	// More than the node has: the kubelet takes its six devices, the plugin adds
	// two.
	m.end(pod.UID)
	eight := gpuPod("eight", 8)
	k.mustAdmit(t, eight)
	if diff := cmp.Diff(gpuIDs(0, 1, 2, 3, 4, 5, 6, 7), k.devices(eight, gpus)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}
