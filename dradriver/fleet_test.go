// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const limit = 30 * time.Second

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", limit, what)
		case <-ticker.C:
		}
	}
}

// published returns the nodes that have ResourceSlices, with the numbers of their devices.
func published(t *testing.T, clients map[string]*fake.Clientset) string {
	t.Helper()
	var nodes []string
	for node, client := range clients {
		list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			nodes = append(nodes, node+strings.Repeat("*", len(list.Items[i].Spec.Devices)))
		}
	}
	slices.Sort(nodes)
	return strings.Join(nodes, " ")
}

// nameGenerated has the fake client name objects as the API server does.
func nameGenerated(client *fake.Clientset) {
	client.PrependReactor("create", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if create, ok := action.(clienttesting.CreateAction); ok {
			if slice, ok := create.GetObject().(*resourceapi.ResourceSlice); ok && slice.Name == "" {
				slice.Name = names.SimpleNameGenerator.GenerateName(slice.GenerateName)
			}
		}
		return false, nil, nil
	})
}

// TestTheFleetPublishesTheNodesWithTheLabel gives the label to simulated nodes and takes it away.
func TestTheFleetPublishesTheNodesWithTheLabel(t *testing.T) {
	t.Parallel()
	opts := newOptions()
	opts.SimulatedNodes = filepath.Join(t.TempDir(), "nodes.yaml")
	list := "- {name: node-1, profile: {count: 2}}\n- {name: node-2, profile: {count: 3}}\n- {name: node-3, profile: {count: 4}}\n"
	if err := os.WriteFile(opts.SimulatedNodes, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := opts.complete(nil); err != nil {
		t.Fatal(err)
	}
	node := func(name, allocation string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{v1.LabelGPUAllocation: allocation}}}
	}
	client := fake.NewClientset(node("node-1", v1.AllocationDRA), node("node-2", "plugin"), node("other", v1.AllocationDRA))
	// One for each node: the fake client does not filter by the fields that tell the nodes' slices apart.
	clients := map[string]*fake.Clientset{}
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		clients[name] = fake.NewClientset()
		nameGenerated(clients[name])
	}
	f := newFleet(client, func(node string) (kubernetes.Interface, error) { return clients[node], nil }, newSources(opts), opts)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	eventually(t, "node-1 is published", func() bool { return published(t, clients) == "node-1**" })
	if _, err := client.CoreV1().Nodes().Create(ctx, node("node-3", v1.AllocationDRA), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node-3 is published, too", func() bool { return published(t, clients) == "node-1** node-3****" })
	if err := client.CoreV1().Nodes().Delete(ctx, "node-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node-1 is withdrawn", func() bool { return published(t, clients) == "node-3****" })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
