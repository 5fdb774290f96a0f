// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelettest

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	kubeletpodresources "k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/node/assignment"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// providers gives the kubelet's pod-resources server access to a kubelet.
type providers struct{ *kubelet }

func (p providers) GetActivePods() []*corev1.Pod { return p.machine.activePods() }
func (p providers) GetPods() []*corev1.Pod       { return p.machine.activePods() }
func (p providers) GetPodByName(namespace, name string) (*corev1.Pod, bool) {
	for _, pod := range p.machine.activePods() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}
func (p providers) GetDevices(uid, container string) []*podresourcesapi.ContainerDevices {
	return containerDevices(p.kubelet.GetDevices(uid, container))
}
func (p providers) GetAllocatableDevices(logger klog.Logger) []*podresourcesapi.ContainerDevices {
	return containerDevices(p.kubelet.GetAllocatableDevices(logger))
}
func (providers) GetCPUs(*corev1.Pod, *corev1.Container) []int64 { return nil }
func (providers) GetPodCPUs(string) []int64                      { return nil }
func (providers) GetAllocatableCPUs() []int64                    { return nil }
func (providers) GetMemory(klog.Logger, *corev1.Pod, *corev1.Container) []*podresourcesapi.ContainerMemory {
	return nil
}
func (providers) GetPodMemory(klog.Logger, string) []*podresourcesapi.ContainerMemory { return nil }
func (providers) GetAllocatableMemory(klog.Logger) []*podresourcesapi.ContainerMemory { return nil }
func (providers) GetDynamicResources(klog.Logger, *corev1.Pod, *corev1.Container) []*podresourcesapi.DynamicResource {
	return nil
}

// containerDevices converts as the kubelet does: an entry for each device.
func containerDevices(devices devicemanager.ResourceDeviceInstances) []*podresourcesapi.ContainerDevices {
	var entries []*podresourcesapi.ContainerDevices
	for resource, instances := range devices {
		for id := range instances {
			entries = append(entries, &podresourcesapi.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}})
		}
	}
	return entries
}

// servePodResources serves the pod-resources API as the kubelet does.
func (k *kubelet) servePodResources(t *testing.T) {
	t.Helper()
	p := providers{k}
	_, ctx := ktesting.NewTestContext(t)
	server := grpc.NewServer()
	podresourcesapi.RegisterPodResourcesListerServer(server, kubeletpodresources.NewV1PodResourcesServer(ctx,
		kubeletpodresources.PodResourcesProviders{Pods: p, Devices: p, Cpus: p, Memory: p, DynamicResources: p}))
	listener, err := net.Listen("unix", filepath.Join(k.machine.dir, "pod-resources"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
}

func TestTheTruthComesFromTheKubelet(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	client, err := podresources.NewClient(filepath.Join(m.dir, "pod-resources"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if _, err := client.List(t.Context()); err == nil {
		t.Error("there is no kubelet, but it answers")
	}
	k := m.startKubelet(t)
	k.servePodResources(t)
	m.start(t, gpus, pool(t, tenGPUs()))
	m.start(t, rdma, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})
	k.awaitAmount(t, rdma, amount{10, 10})

	right := assign(t, gpuPod("right", 2), gpuIDs(2, 3)...)
	// A GPU chosen for this one is in use already.
	wrong := assign(t, gpuPod("wrong", 2), gpuIDs(3, 4)...)
	without := newPod("without", nil)
	stranger := newPod("stranger", map[string]int64{rdma: 1})
	pods := []*corev1.Pod{right, wrong, without, stranger}
	for _, pod := range pods {
		k.mustAdmit(t, pod)
	}
	await(t, func() bool { _, err = client.List(t.Context()); return err == nil }, func() any { return err })
	got, err := client.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	allocation := func(pod, resource string, ids ...string) podresources.Allocation {
		return podresources.Allocation{Namespace: "default", Pod: pod, Container: "gpu-task", Resource: resource, DeviceIDs: ids}
	}
	want := []podresources.Allocation{
		allocation("right", gpus, gpuIDs(2, 3)...), allocation("stranger", rdma, gpuIDs(6)...), allocation("wrong", gpus, gpuIDs(0, 1)...),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("allocations (-want +got):\n%s", diff)
	}

	checkCorrections(t, got, pods, wrong, `{"gpu-task":{"falldio.com/gpu":["GPU-0","GPU-1"]}}`)
}

// checkCorrections expects that the annotation of one Pod is corrected, once, to what its
// containers have.
func checkCorrections(t *testing.T, truth []podresources.Allocation, pods []*corev1.Pod, wrong *corev1.Pod, want string) {
	t.Helper()
	started := metav1.Now()
	cached := make([]*corev1.Pod, 0, len(pods))
	api := fake.NewClientset()
	for _, pod := range pods {
		pod := pod.DeepCopy()
		pod.Status.StartTime = &started
		cached = append(cached, pod)
		if err := api.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	patchPod := func(ctx context.Context, pod types.NamespacedName, patch []byte) error {
		_, err := api.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	corrector := assignment.NewCorrector(func() []*corev1.Pod { return cached }, patchPod, []string{gpus, percent})
	corrected, err := corrector.Correct(t.Context(), truth, nil)
	if err != nil || corrected != 1 {
		t.Fatalf("Correct() = %d, %v", corrected, err)
	}
	patches := api.Actions()
	if len(patches) != 1 {
		t.Fatalf("writes = %+v", patches)
	}
	patch := patches[0].(clienttesting.PatchAction)
	wantPatch := `{"metadata":{"annotations":{"falldio.com/gpu-assignment":"` +
		strings.ReplaceAll(`{"version":"v1","containers":`+want+`}`, `"`, `\"`) + `"},"uid":"uid-of-wrong"}}`
	if diff := cmp.Diff(wantPatch, string(patch.GetPatch())); diff != "" || patch.GetName() != "wrong" {
		t.Errorf("patch of %s (-want +got):\n%s", patch.GetName(), diff)
	}
	// Once the cache shows it, there is nothing to do.
	place := slices.Index(pods, wrong)
	cached[place], err = api.CoreV1().Pods("default").Get(t.Context(), "wrong", metav1.GetOptions{})
	if err != nil || cached[place].Annotations[inventory.AssignmentAnnotation] == wrong.Annotations[inventory.AssignmentAnnotation] {
		t.Fatalf("the Pod is not corrected: %v", err)
	}
	if corrected, err := corrector.Correct(t.Context(), truth, nil); err != nil || corrected != 0 {
		t.Errorf("Correct() = %d, %v, want nothing to do", corrected, err)
	}
}
