// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelettest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	cadvisorapi "github.com/google/cadvisor/lib/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// newManagerImpl is what devicemanager.NewManagerImpl calls with the kubelet's
// fixed directory.
//
//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(logger klog.Logger, socketPath string, topology []cadvisorapi.Node, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

// limit bounds every wait.
const limit = 30 * time.Second

// machine is what survives a restart of the kubelet: its directory and the Pods.
type machine struct {
	dir string

	mu   sync.Mutex
	pods []*corev1.Pod
	// late are the Pods that are not in the agent's cache yet.
	late map[types.UID]bool
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeForGood(t, dir) })
	return &machine{dir: dir, late: map[types.UID]bool{}}
}

// removeForGood deletes a directory until it stays deleted: a stopped kubelet may still be
// handling a plugin's message, and recreates the directory to write its checkpoint.
func removeForGood(t *testing.T, dir string) {
	t.Helper()
	const calm = 20
	away := 0
	// The test's own context ends before its cleanup.
	err := wait.PollUntilContextTimeout(context.WithoutCancel(t.Context()), 5*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
			away++
			return away >= calm, nil
		}
		away = 0
		_ = os.RemoveAll(dir) // the next attempt shows whether it worked
		return false, nil
	})
	if err != nil {
		t.Errorf("the directory %s does not stay deleted: %v", dir, err)
	}
}

func (m *machine) activePods() []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.pods)
}

// knownPods returns the Pods in the agent's cache.
func (m *machine) knownPods() []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.pods), func(pod *corev1.Pod) bool { return m.late[pod.UID] })
}

// delay keeps a Pod out of the agent's cache.
func (m *machine) delay(pod *corev1.Pod, late bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late[pod.UID] = late
}

// bind binds Pods to the node.
func (m *machine) bind(pods ...*corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods = append(m.pods, pods...)
}

// end removes a Pod.
func (m *machine) end(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods = slices.DeleteFunc(m.pods, func(pod *corev1.Pod) bool { return pod.UID == uid })
}

// kubelet is one run of a machine's kubelet.
type kubelet struct {
	*devicemanager.ManagerImpl
	machine *machine
	logger  klog.Logger
	stopped sync.Once
}

func (m *machine) startKubelet(t *testing.T) *kubelet {
	t.Helper()
	logger, _ := ktesting.NewTestContext(t)
	return m.startKubeletWith(t, topologymanager.NewFakeManager(logger))
}

func (m *machine) startKubeletWith(t *testing.T, store topologymanager.Store) *kubelet {
	t.Helper()
	logger, _ := ktesting.NewTestContext(t)
	manager, err := newManagerImpl(logger, filepath.Join(m.dir, "kubelet.sock"), []cadvisorapi.Node{{Id: 0}, {Id: 1}}, store)
	if err != nil {
		t.Fatal(err)
	}
	ready := kubeletconfig.NewSourcesReady(func(sets.Set[string]) bool { return true })
	if err := manager.Start(logger, m.activePods, ready, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		t.Fatal(err)
	}
	k := &kubelet{ManagerImpl: manager, machine: m, logger: logger}
	t.Cleanup(k.stop)
	return k
}

func (k *kubelet) stop() {
	k.stopped.Do(func() { _ = k.Stop(k.logger) })
}

// admit allocates devices as the kubelet does for a new Pod.
func (k *kubelet) admit(pod *corev1.Pod) error {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if err := k.Allocate(context.Background(), pod, &containers[i], lifecycle.AddOperation); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *kubelet) mustAdmit(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	k.machine.bind(pod)
	if err := k.admit(pod); err != nil {
		t.Fatalf("admitting %s: %v", pod.Name, err)
	}
}

// amount is a resource's capacity and how much of it is allocatable.
type amount struct{ capacity, allocatable int64 }

func (k *kubelet) amount(resource string) amount {
	capacity, allocatable, _ := k.GetCapacity(k.logger)
	c, a := capacity[corev1.ResourceName(resource)], allocatable[corev1.ResourceName(resource)]
	return amount{c.Value(), a.Value()}
}

// awaitAmount waits until the node's status would have this amount.
func (k *kubelet) awaitAmount(t *testing.T, resource string, want amount) {
	t.Helper()
	var got amount
	await(t, func() bool {
		got = k.amount(resource)
		return got == want
	}, func() any { return got })
}

// devices returns what a Pod's first container has, sorted.
func (k *kubelet) devices(pod *corev1.Pod, resource string) []string {
	return k.devicesOf(pod, pod.Spec.Containers[0].Name, resource)
}

// devicesOf returns what a Pod's container has, sorted.
func (k *kubelet) devicesOf(pod *corev1.Pod, container, resource string) []string {
	var ids []string
	for id := range k.GetDevices(string(pod.UID), container)[resource] {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// entry is an entry of the checkpoint.
type entry struct {
	PodUID, ContainerName, ResourceName string
	DeviceIDs                           map[string][]string
}

func (m *machine) checkpoint(t *testing.T) []entry {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(m.dir, "kubelet_internal_checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Data struct{ PodDeviceEntries []entry }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	entries := file.Data.PodDeviceEntries
	for i := range entries {
		for numa := range entries[i].DeviceIDs {
			slices.Sort(entries[i].DeviceIDs[numa])
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return slices.Compare([]string{a.PodUID, a.ContainerName, a.ResourceName}, []string{b.PodUID, b.ContainerName, b.ResourceName})
	})
	return entries
}

// await waits for a condition; got returns the actual state for the failure message.
func await(t *testing.T, condition func() bool, got func() any) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		t.Fatalf("%v, got: %v", err, got())
	}
}
