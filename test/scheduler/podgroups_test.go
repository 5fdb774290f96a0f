// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const idleNode = "--nodes=name=idle,model=idle,count=1,gpus=1,gpu-memory=1024Mi"

// groupKind is an API for PodGroups, and how Pods name one.
type groupKind struct {
	group, version string
	name           func(*corev1.Pod, string)
	spec           func(minimum int64) map[string]any
}

func kubernetesGroups(version string) groupKind {
	return groupKind{
		group: "scheduling.k8s.io", version: version,
		name: func(pod *corev1.Pod, name string) {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		},
		spec: func(minimum int64) map[string]any {
			return map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": minimum}}}
		},
	}
}

func withMinMember(minimum int64) map[string]any { return map[string]any{"minMember": minimum} }

func volcanoGroups() groupKind {
	return groupKind{
		group: "scheduling.volcano.sh", version: "v1beta1", spec: withMinMember,
		name: func(pod *corev1.Pod, name string) { pod.Annotations["scheduling.k8s.io/group-name"] = name },
	}
}

func coschedulingGroups() groupKind {
	return groupKind{
		group: "scheduling.x-k8s.io", version: "v1alpha1", spec: withMinMember,
		name: func(pod *corev1.Pod, name string) { pod.Labels["scheduling.x-k8s.io/pod-group"] = name },
	}
}

// groupPods are Pods of PodGroups of one kind.
type groupPods struct {
	*suite
	kind   groupKind
	groups dynamic.ResourceInterface
	root   dynamic.Interface
	// scheduler is that of the Pods, if it is not the cluster's own.
	scheduler string
}

func (s *suite) podGroups(kind groupKind) *groupPods {
	s.Helper()
	config, err := s.Config()
	if err != nil {
		s.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		s.Fatal(err)
	}
	resource := schema.GroupVersionResource{Group: kind.group, Version: kind.version, Resource: "podgroups"}
	return &groupPods{suite: s, kind: kind, root: client, groups: client.Resource(resource).Namespace(s.namespace)}
}

// install makes the API server serve the kind.
func (g *groupPods) install() {
	g.Helper()
	names := map[string]any{"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name":        "podgroups." + g.kind.group,
			"annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for a test"}, // of k8s.io
		},
		"spec": map[string]any{
			"group": g.kind.group, "scope": "Namespaced", "names": names,
			"versions": []any{map[string]any{
				"name": g.kind.version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	definitions := g.root.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := definitions.Create(g.Context(), definition, metav1.CreateOptions{}); err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() {
		if err := definitions.Delete(context.WithoutCancel(g.Context()), definition.GetName(), metav1.DeleteOptions{}); err != nil {
			g.Error(err)
		}
	})
	g.eventually("the API server serves "+g.kind.group, func() (bool, string) {
		_, err := g.groups.List(g.Context(), metav1.ListOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// create creates a PodGroup with constraints, if any.
func (g *groupPods) create(name string, minimum int64, topologyKey string) {
	g.Helper()
	spec := g.kind.spec(minimum)
	if topologyKey != "" {
		spec["schedulingConstraints"] = map[string]any{"topology": []any{map[string]any{"key": topologyKey}}}
	}
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": g.kind.group + "/" + g.kind.version, "kind": "PodGroup", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	if _, err := g.groups.Create(g.Context(), group, metav1.CreateOptions{}); err != nil {
		g.Fatal(err)
	}
}

// pod creates a Pod that names a PodGroup of its gang's name.
func (g *groupPods) pod(pod *corev1.Pod) {
	g.Helper()
	g.kind.name(pod, pod.Labels["gang"])
	if created := g.createPod(pod); g.kind.group == "scheduling.k8s.io" && created.Spec.SchedulingGroup == nil {
		g.Fatal("the API server has dropped spec.schedulingGroup")
	}
}

// single describes a Pod that has no labels of a gang of ours.
func (g *groupPods) single(name string) gang { return gang{name: name, scheduler: g.scheduler} }

// startsTogether checks that two of three Pods wait for the third, which has no GPUs, and
// for the PodGroup itself.
func (g *groupPods) startsTogether(name string) {
	g.Helper()
	g.pod(g.podOf(g.single(name), 0))
	g.waitForRefusal(name, "waits for PodGroup "+name)
	g.create(name, 3, "")
	g.pod(g.podOf(g.single(name), 1))
	g.createPods(g.single("after-" + name))
	g.waitForBound(1, "after-"+name) // the two had their turn
	g.waitForBound(0, name)
	g.pod(g.launcherOf(g.single(name), 2))
	g.waitForBound(3, name)
}

// TestKubernetesPodGroupsAreGangs is about the API of Kubernetes 1.37.
func TestKubernetesPodGroupsAreGangs(t *testing.T) {
	t.Parallel()
	c, err := startCluster("podgroups", idleNode,
		"--apiserver-arg=--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
		"--apiserver-arg=--runtime-config=scheduling.k8s.io/v1beta1=true")
	if err != nil {
		t.Fatal(err)
	}
	c.stopAfter(t)
	s := newSuiteIn(t, c)
	g := s.podGroups(kubernetesGroups("v1beta1"))
	s.addNodes(machine{name: "a", gpus: 2, leaf: "one"}, machine{name: "b", gpus: 2, leaf: "two"}, machine{name: "c", gpus: 2, leaf: "two"})
	g.startsTogether("train")
	s.deleteGang("train")
	s.deleteGang("after-train")

	g.create("near", 4, "falldio.com/leaf")
	for index := range 4 {
		g.pod(g.podOf(g.single("near"), index))
	}
	s.waitForBound(4, "near")
	for _, node := range s.nodesOf("near") {
		if node == "a" {
			t.Errorf("a Pod is on node %s, outside the leaf of the others", node)
		}
	}
	g.create("far", 1, "example.com/row")
	g.pod(g.podOf(g.single("far"), 0))
	s.waitForRefusal("far", "its topology key example.com/row is the label of no topology level")
}

// TestAPodWhosePodGroupCannotExistSaysSo uses the API server of Kubernetes 1.36, which takes
// the field spec.schedulingGroup but serves no version of the API here: that of 1.36 is
// missing in 1.37's program, and no CustomResourceDefinition can stand in for a group that is
// built in. The package scheduler/podgroups tests that version.
func TestAPodWhosePodGroupCannotExistSaysSo(t *testing.T) {
	t.Parallel()
	c, err := startCluster("podgroups-1.36", idleNode, "--emulated-version=1.36", "--apiserver-arg=--feature-gates=GenericWorkload=true")
	if err != nil {
		t.Fatal(err)
	}
	c.stopAfter(t)
	s := newSuiteIn(t, c)
	g := s.podGroups(kubernetesGroups("v1alpha2"))
	s.addNodes(machine{name: "a", gpus: 4})
	g.pod(g.podOf(g.single("early"), 0))
	s.waitForRefusal("early", "waits for PodGroup early (podgroups.scheduling.k8s.io), which the API server does not serve")
	s.createPods(gang{name: "others", pods: 2})
	s.waitForBound(2, "others")
}

// TestThePodGroupsOfOtherSchedulersAreGangs needs nothing to be changed in a Job that was
// written for another scheduler, except the scheduler's name.
func TestThePodGroupsOfOtherSchedulersAreGangs(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machine{name: "a", gpus: 16})
	before, after := s.namespace+"-before", s.namespace+"-after"
	s.startScheduler(before, nil)
	var kinds []*groupPods
	for _, kind := range []groupKind{volcanoGroups(), coschedulingGroups()} {
		g := s.podGroups(kind)
		g.scheduler = before // there is no such API: no Pod waits for another
		alone := "alone-" + kind.version
		g.pod(g.podOf(g.single(alone), 0))
		s.waitForBound(1, alone)
		kinds = append(kinds, g)
	}
	for _, g := range kinds {
		g.install()
	}
	s.startScheduler(after, nil) // the other one looks once a minute
	for _, g := range kinds {
		g.scheduler = after
		g.startsTogether("train-" + g.kind.version)
	}
}
