// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accepted_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/test/accepted"
)

func validator(tb testing.TB, plural string) *accepted.Validator {
	tb.Helper()
	v, err := accepted.NewValidator(plural)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// fields returns an object as a decoder of JSON does.
func fields(tb testing.TB, object any) map[string]any {
	tb.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		tb.Fatal(err)
	}
	return content
}

// objectIn returns the object in a text; nil if there is none.
func objectIn(text []byte) map[string]any {
	var content map[string]any
	if err := json.Unmarshal(text, &content); err != nil {
		return nil
	}
	return runtime.DeepCopyJSON(wholeNumbers(content).(map[string]any)) //nolint:forcetypeassert // it is a map
}

// wholeNumbers turns numbers without a fraction into int64, as the decoder of the API server does.
func wholeNumbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = wholeNumbers(value[key])
		}
	case []any:
		for i := range value {
			value[i] = wholeNumbers(value[i])
		}
	case float64:
		if whole := int64(value); float64(whole) == value {
			return whole
		}
	}
	return value
}

// nodes are one with an agent, one with MIG slices, one of which only the number of GPUs is known,
// and one with NVIDIA's device plugin.
func nodes(tb testing.TB) []*corev1.Node {
	tb.Helper()
	listed := inventory.Inventory{}
	for i, uuid := range []string{"GPU-a", "GPU-b", "GPU-c", "GPU-d"} {
		listed.GPUs = append(listed.GPUs, inventory.GPU{Index: i, UUID: uuid, Model: "h100-80gb-hbm3", MemoryMiB: 81559, NVLinkGroup: new(i / 2), NUMANode: new(i / 2), Health: inventory.Healthy})
	}
	text, err := listed.String()
	if err != nil {
		tb.Fatal(err)
	}
	return []*corev1.Node{
		makeNode("agent", map[string]string{v1.LabelGPUModel: "h100-80gb-hbm3", v1.LabelGPUMemory: "81559", v1.LabelLeaf: "leaf-1"}, text, corev1.ResourceList{v1.ResourceGPU: resource.MustParse("4"), v1.ResourceGPUPercent: resource.MustParse("400")}),
		makeNode("slices", map[string]string{v1.LabelLeaf: "leaf-1"}, "", corev1.ResourceList{v1.MIGResource("1g.10gb"): resource.MustParse("14")}),
		makeNode("unlisted", map[string]string{v1.LabelGPUModel: "rtx4090", v1.LabelLeaf: "leaf-2", v1.LabelNodePool: "small"}, "", corev1.ResourceList{v1.ResourceGPU: resource.MustParse("2")}),
		makeNode("nvidia", map[string]string{v1.LabelLeaf: "leaf-2"}, "", corev1.ResourceList{v1.ResourceNVIDIAGPU: resource.MustParse("2")}),
	}
}

func makeNode(name string, labels map[string]string, inventoryText string, gpus corev1.ResourceList) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	node.Labels[corev1.LabelHostname] = name
	if inventoryText != "" {
		node.Annotations = map[string]string{inventory.Annotation: inventoryText}
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.Allocatable = gpus
	node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("64")
	node.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("512Gi")
	node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	return node
}

// clusterFor returns the cluster with bound Pods as the engine sees it, for Pods that are to be
// placed.
func clusterFor(nodes []*corev1.Node, bound []*corev1.Pod, shapes ...placement.Shape) *snapshot.Cluster {
	view := snapshot.NodeView{Levels: snapshot.DefaultLevels()}
	for i := range shapes {
		view.Track(&shapes[i])
	}
	return view.Cluster(packing.New(packing.Default()), nodes, bound)
}
