// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/settings"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

func TestTheDriverIsLeftAloneForTheGPUOperator(t *testing.T) {
	t.Parallel()
	opts := newOptions()
	opts.nodeName, opts.Source, opts.kubeletDirectory, opts.cdiSpecDir = "n", settings.SourceSimulated, t.TempDir(), t.TempDir()
	if err := opts.complete(nil); err != nil {
		t.Fatal(err)
	}
	n, err := newNode(t.Context(), fake.NewClientset(), nil, simulation.New(opts.Profile, "n", clock.RealClock{}), opts)
	if err != nil {
		t.Fatal(err)
	}
	for i, test := range []struct {
		labels map[string]string
		paused bool
	}{
		{nil, false},
		{map[string]string{"nvidia.com/gpu.deploy.container-toolkit": "paused-for-driver-upgrade"}, true},
		{map[string]string{"nvidia.com/gpu.deploy.container-toolkit": "true"}, false},
	} {
		n.view.See(&metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: string(rune('1' + i)), Labels: test.labels})
		n.monitor.Poll(t.Context())
		snapshot := n.monitor.Snapshot()
		if errors.Is(snapshot.Problem, gpu.ErrPaused) != test.paused || snapshot.Devices[0].Healthy() == test.paused {
			t.Errorf("with labels %v: problem %v, fault %v", test.labels, snapshot.Problem, snapshot.Devices[0].Fault)
		}
	}
}
