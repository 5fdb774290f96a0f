// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata/fake"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/nodeagent/node/kube"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

func TestGPUsAreHeldByThePodsThatSayIt(t *testing.T) {
	t.Parallel()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pod := func(name, annotation string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Annotations: map[string]string{inventory.AssignmentAnnotation: annotation}},
		}
	}
	given := inventory.Assignment{}
	given.Add("main", "falldio.com/gpu", "GPU-a", "GPU-b")
	given.Add("main", "falldio.com/gpu-percent", share.ID("GPU-c", 0))
	text, err := given.String()
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme, pod("train", text), pod("broken", "{"))
	held, err := newHeldGPUs(client)
	if err != nil {
		t.Fatal(err)
	}
	go held.run(t.Context())
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for begin := time.Now(); !holds(); time.Sleep(2 * time.Millisecond) {
			if time.Since(begin) > 30*time.Second {
				t.Fatalf("it never happened that %s", what)
			}
		}
	}
	eventually("a whole GPU is held", func() bool { return held.holds("GPU-a") && held.holds("GPU-b") })
	if !held.holds("GPU-c") || held.holds("GPU-d") {
		t.Errorf("of which a share is held: %v; which nobody has: %v", held.holds("GPU-c"), held.holds("GPU-d"))
	}
	if err := client.Resource(kube.Pods).Namespace("default").Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("it is free again", func() bool { return !held.holds("GPU-a") })
}
