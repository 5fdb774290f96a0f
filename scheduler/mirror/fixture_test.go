// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// beginning is what time it is.
var beginning = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// card is a healthy GPU of the test's nodes.
func card(uuid string) inventory.GPU {
	return inventory.GPU{UUID: uuid, Model: "A100", MemoryMiB: 40960, Health: inventory.Healthy}
}

func cards(node string, count int) []inventory.GPU {
	list := make([]inventory.GPU, count)
	for i := range list {
		list[i] = card(fmt.Sprintf("%s-%d", node, i))
		list[i].Index = i
	}
	return list
}

// aNode returns a node with these cards.
func aNode(t *testing.T, name string, gpus []inventory.GPU) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelGPUModel: "A100", v1.LabelLeaf: "leaf-" + name[:1]}}}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("20"),
		v1.ResourceGPU: resource.MustParse(strconv.Itoa(len(gpus))),
	}
	return withCards(t, node, gpus)
}

// withCards returns the node with other cards.
func withCards(t *testing.T, node *corev1.Node, gpus []inventory.GPU) *corev1.Node {
	t.Helper()
	text, err := inventory.Inventory{GPUs: gpus}.String()
	if err != nil {
		t.Fatal(err)
	}
	node = node.DeepCopy()
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, inventory.Annotation, text)
	return node
}

// aPod returns a Pod that wants so many GPUs, or percent of one.
func aPod(name string, gpus, percent int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")}
	if gpus > 0 {
		requests[v1.ResourceGPU] = resource.MustParse(strconv.Itoa(gpus))
	}
	if percent > 0 {
		requests[v1.ResourceGPUPercent] = resource.MustParse(strconv.Itoa(percent))
	}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}}
	return pod
}

// on returns the Pod on a node, with the cards of these names if there are any.
func on(t *testing.T, pod *corev1.Pod, node string, uuids ...string) *corev1.Pod {
	t.Helper()
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	if len(uuids) == 0 {
		return pod
	}
	name := v1.ResourceGPU
	if _, shared := pod.Spec.Containers[0].Resources.Requests[v1.ResourceGPUPercent]; shared {
		name = v1.ResourceGPUPercent
	}
	assignment := inventory.Assignment{}
	assignment.Add("main", string(name), uuids...)
	text, err := assignment.String()
	if err != nil {
		t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, inventory.AssignmentAnnotation, text)
	return pod
}

// world is what kube-scheduler's cache knows.
type world struct {
	t     *testing.T
	names []string
	infos map[string]*framework.NodeInfo
}

func newWorld(t *testing.T, nodes ...*corev1.Node) *world {
	t.Helper()
	w := &world{t: t, infos: map[string]*framework.NodeInfo{}}
	for _, node := range nodes {
		w.set(node)
	}
	return w
}

// set adds a node, or changes it.
func (w *world) set(node *corev1.Node) {
	info := w.infos[node.Name]
	if info == nil {
		info = framework.NewNodeInfo()
		w.infos[node.Name] = info
		w.names = append(w.names, node.Name)
	}
	info.SetNode(node)
}

// drop removes a node, with the Pods that it has.
func (w *world) drop(name string) {
	delete(w.infos, name)
	w.names = slices.DeleteFunc(w.names, func(one string) bool { return one == name })
}

func (w *world) add(pods ...*corev1.Pod) {
	w.t.Helper()
	for _, pod := range pods {
		w.infos[pod.Spec.NodeName].AddPod(pod)
	}
}

func (w *world) remove(pod *corev1.Pod) {
	w.t.Helper()
	if err := w.infos[pod.Spec.NodeName].RemovePod(ktesting.NewLogger(w.t, ktesting.NewConfig()), pod); err != nil {
		w.t.Fatal(err)
	}
}

// change replaces a Pod on its node.
func (w *world) change(before, after *corev1.Pod) {
	w.t.Helper()
	w.remove(before)
	w.add(after)
}

func (w *world) snapshot() []fwk.NodeInfo {
	list := make([]fwk.NodeInfo, len(w.names))
	for i, name := range w.names {
		list[i] = w.infos[name]
	}
	return list
}

func newMirror(t *testing.T, pools ...string) *Mirror {
	t.Helper()
	return mirrorAt(t, clocktesting.NewFakePassiveClock(beginning), pools...)
}

func mirrorAt(t *testing.T, clock clock.PassiveClock, pools ...string) *Mirror {
	t.Helper()
	return New(ktesting.NewLogger(t, ktesting.NewConfig()), clock, snapshot.DefaultLevels(), pools)
}

// shapes are what tests ask room for.
func shapes() map[string]placement.Shape {
	return map[string]placement.Shape{
		"1 GPU": {GPUs: 1}, "2 GPUs": {GPUs: 2}, "4 GPUs": {GPUs: 4}, "30 %": {Share: 30}, "60 %": {Share: 60},
		"CPU": {CPU: 2000, Memory: 4096}, "adapters": {Others: placement.Amounts{{Resource: adapters, Value: 1}}}, "much CPU": {CPU: 50000},
	}
}

// room is how many Pods of each shape fit.
func room(m *Mirror) map[string]int {
	got := map[string]int{}
	m.With(func(cluster *placement.Cluster) {
		for name, shape := range shapes() {
			got[name] = cluster.Root().Room(cluster.Request(shape))
		}
	})
	return got
}

// placeFor finds a place for a Pod on a node.
func placeFor(t *testing.T, m *Mirror, pod *corev1.Pod, node string) (place placement.Place, found bool) {
	t.Helper()
	shape, err := snapshot.Shape(pod)
	if err != nil {
		t.Fatal(err)
	}
	m.With(func(cluster *placement.Cluster) { place, found = cluster.On(node, cluster.Request(shape)) })
	return place, found
}

// hold gives a Pod a seat on a node.
func hold(t *testing.T, m *Mirror, pod *corev1.Pod, node string) placement.Place {
	t.Helper()
	place, found := placeFor(t, m, pod, node)
	if !found {
		t.Fatalf("there is no room for Pod %s on node %s", pod.Name, node)
	}
	m.Hold(pod, place)
	return place
}

// seatedOn returns what seats withhold on a node.
func seatedOn(m *Mirror, node string) Withheld {
	seated, _ := m.WithheldFrom(&corev1.Pod{})
	return seated[node]
}

// reservedOn returns what reservations withhold from a Pod on a node.
func reservedOn(m *Mirror, node string, pod *corev1.Pod) Withheld {
	_, reserved := m.WithheldFrom(pod)
	return reserved[node]
}
