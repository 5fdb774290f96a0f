// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// machine is a node to be simulated.
type machine struct {
	name string
	gpus int
	// nvlink is how many neighbouring GPUs reach each other over NVLink.
	nvlink int
	// broken are the indices of GPUs that are unhealthy.
	broken []int
	leaf   string
	pool   string
	// tenant is the only tenant that may use the node, by a taint.
	tenant string
	cpu    string
	// nvidia is true if NVIDIA's device plugin gives out the GPUs, and no node agent runs.
	nvidia bool
	// dra is true if our DRA driver gives out the GPUs, and foreign if another one does, and no
	// node agent runs.
	dra, foreign bool
}

// tenantTaint keeps the Pods of others off a tenant's nodes.
const tenantTaint = "example.com/tenant"

// addNodes adds simulated nodes of the test's own GPU model and waits until they are
// ready. They are deleted at the end of the test.
func (s *suite) addNodes(machines ...machine) {
	s.Helper()
	group, ctx := errgroup.WithContext(s.Context())
	for _, m := range machines {
		group.Go(func() error {
			node, err := s.nodeOf(m)
			if err != nil {
				return err
			}
			s.ledger.node(node)
			_, err = s.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		s.Fatal(err)
	}
	for _, m := range machines {
		s.Cleanup(func() { s.deleteNode(m.name) })
	}
	for _, m := range machines {
		s.waitUntilReady(m.name)
	}
}

func (s *suite) addNode(m machine) {
	s.Helper()
	s.addNodes(m)
}

// node returns a node's name in the cluster.
func (s *suite) node(name string) string { return s.namespace + "-" + name }

func (s *suite) deleteNode(name string) {
	s.Helper()
	err := s.kube.CoreV1().Nodes().Delete(context.WithoutCancel(s.Context()), s.node(name), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Errorf("deleting node %s: %v", name, err)
	}
}

func (s *suite) waitUntilReady(name string) {
	s.Helper()
	s.eventually("node "+name+" is ready", func() (bool, string) {
		got, err := s.kube.CoreV1().Nodes().Get(s.Context(), s.node(name), metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, taint := range got.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady {
				return false, "tainted"
			}
		}
		for _, condition := range got.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return true, ""
			}
		}
		return false, "not ready"
	})
}

// nodeOf returns the Node of a machine, as a node agent would label it.
func (s *suite) nodeOf(m machine) (*corev1.Node, error) {
	text, err := s.inventoryOf(m)
	if err != nil {
		return nil, err
	}
	cpu := m.cpu
	if cpu == "" {
		cpu = "128"
	}
	allocatable := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("110"),
		v1.ResourceGPU:        *resource.NewQuantity(int64(m.gpus), resource.DecimalSI),
		v1.ResourceGPUPercent: *resource.NewQuantity(100*int64(m.gpus), resource.DecimalSI),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.node(m.name),
			Labels: map[string]string{
				"type": "kwok", corev1.LabelHostname: s.node(m.name),
				v1.LabelGPUModel: s.model(), v1.LabelGPUCount: strconv.Itoa(m.gpus), v1.LabelGPUMemory: strconv.Itoa(gpuMemory),
			},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake", inventory.Annotation: text},
		},
		Status: corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable},
	}
	if m.nvidia {
		delete(node.Annotations, inventory.Annotation)
		allocatable[v1.ResourceNVIDIAGPU] = allocatable[v1.ResourceGPU]
		delete(allocatable, v1.ResourceGPU)
		delete(allocatable, v1.ResourceGPUPercent)
	}
	if m.dra || m.foreign {
		delete(allocatable, v1.ResourceGPU)
		delete(allocatable, v1.ResourceGPUPercent)
	}
	if m.dra {
		node.Labels[v1.LabelGPUAllocation] = v1.AllocationDRA
	}
	if m.foreign {
		delete(node.Annotations, inventory.Annotation)
		delete(node.Labels, v1.LabelGPUModel)
	}
	if m.leaf != "" {
		node.Labels[v1.LabelLeaf] = s.leaf(m.leaf)
	}
	if m.pool != "" {
		node.Labels[v1.LabelNodePool] = s.pool(m.pool)
	}
	if m.tenant != "" {
		node.Spec.Taints = []corev1.Taint{{Key: tenantTaint, Value: m.tenant, Effect: corev1.TaintEffectNoSchedule}}
	}
	return node, nil
}

// gpuMemory is the memory of each GPU in MiB.
const gpuMemory = 81559

// leaf and pool return the names in the cluster, which are unique for each test.
func (s *suite) leaf(name string) string { return s.namespace + "-" + name }
func (s *suite) pool(name string) string { return s.namespace + "-" + name }

func (s *suite) inventoryOf(m machine) (string, error) {
	list := inventory.Inventory{GPUs: make([]inventory.GPU, m.gpus)}
	for i := range list.GPUs {
		list.GPUs[i] = inventory.GPU{
			Index: i, UUID: s.gpu(m.name, i), Model: s.model(), MemoryMiB: gpuMemory, Health: inventory.Healthy,
		}
		if m.nvlink > 0 {
			group := i / m.nvlink
			list.GPUs[i].NVLinkGroup = &group
		}
	}
	for _, i := range m.broken {
		list.GPUs[i].Health = inventory.Unhealthy
	}
	return list.String()
}

// patchNode changes a node with a JSON merge patch.
func (s *suite) patchNode(name, format string, args ...any) {
	s.Helper()
	_, err := s.kube.CoreV1().Nodes().Patch(s.Context(), s.node(name), types.MergePatchType, fmt.Appendf(nil, format, args...), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

// machines returns a number of identical machines: name-0, name-1 and so on.
func machines(count int, like machine) []machine {
	list := make([]machine, count)
	for i := range list {
		list[i] = like
		list[i].name = fmt.Sprintf("%s-%d", like.name, i)
	}
	return list
}
