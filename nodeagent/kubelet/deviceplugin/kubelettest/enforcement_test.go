// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelettest

import (
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/answers"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/enforcement"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

// stated returns what is stated of each Pod's share, by the Pod's name.
func (k *kubelet) stated(t *testing.T) map[string]string {
	t.Helper()
	m := k.machine
	client, err := podresources.NewClient(filepath.Join(m.dir, "pod-resources"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	allocations, err := client.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	given, err := answers.Read(m.dir, percent)
	if err != nil {
		t.Fatal(err)
	}
	stated := map[string]string{}
	for _, statement := range enforcement.Statements(percent, allocations, m.activePods(), given) {
		stated[statement.Pod.Name] = statement.Given
	}
	return stated
}

// TestWhatLimitsAShareIsWhatTheKubeletRepeats lets the MPS daemon come and go, and the agent and
// the kubelet restart.
func TestWhatLimitsAShareIsWhatTheKubeletRepeats(t *testing.T) {
	t.Parallel()
	machine := newMachine(t)
	var daemon atomic.Bool
	sharing := &deviceplugin.Sharing{MPS: &deviceplugin.MPS{PipeDirectory: "/run/mps", Runs: daemon.Load}}
	start := func(k *kubelet) *instance {
		t.Helper()
		plugin := machine.run(t, deviceplugin.Config{Resource: percent, Pool: pool(t, tenGPUs()), Sharing: sharing})
		k.awaitAmount(t, percent, amount{1000, 1000})
		return plugin
	}
	k := machine.startKubelet(t)
	k.servePodResources(t)
	plugin := start(k)
	early, late := percentPod("early", 46), percentPod("late", 54)
	k.mustAdmit(t, early)
	daemon.Store(true)
	k.mustAdmit(t, late)
	if err := k.admit(early); err != nil { // its container restarts
		t.Fatal(err)
	}
	want := map[string]string{"early": "none", "late": "mps"}
	if diff := cmp.Diff(want, k.stated(t)); diff != "" {
		t.Errorf("stated (-want +got):\n%s", diff)
	}

	plugin.stop()
	k.stop()
	daemon.Store(false)
	k = machine.startKubelet(t)
	k.servePodResources(t)
	start(k)
	for _, pod := range []*corev1.Pod{early, late} {
		if err := k.admit(pod); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, k.stated(t)); diff != "" {
		t.Errorf("stated after a restart (-want +got):\n%s", diff)
	}
}
