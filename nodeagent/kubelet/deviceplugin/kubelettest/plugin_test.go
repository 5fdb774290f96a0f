// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelettest

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

const (
	gpus    = "falldio.com/gpu"
	percent = "falldio.com/gpu-percent"
	rdma    = "falldio.com/rdma"
	envVar  = "FALLDIO_VISIBLE_DEVICES"
)

// instance is a process with a device plugin.
type instance struct {
	*deviceplugin.Plugin
	stop func() // and wait until it has stopped
}

// start runs a device plugin as an agent does.
func (m *machine) start(t *testing.T, name string, pool *deviceplugin.Pool) *instance {
	t.Helper()
	return m.run(t, deviceplugin.Config{Resource: name, Pool: pool, Tracker: deviceplugin.NewPodAllocationTracker(m.knownPods, clock.RealClock{})})
}

// run runs a device plugin with the test's configuration.
func (m *machine) run(t *testing.T, config deviceplugin.Config) *instance {
	t.Helper()
	config.Dir, config.Clock = m.dir, clock.RealClock{}
	if config.CDIKind == nil {
		config.EnvVar = envVar
	}
	config.Timing = deviceplugin.Timing{Poll: time.Second, Retry: 100 * time.Millisecond}
	plugin, err := deviceplugin.New(config)
	if err != nil {
		t.Fatal(err)
	}
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		plugin.Run(ctx)
	}()
	i := &instance{Plugin: plugin, stop: func() { cancel(); <-done }}
	t.Cleanup(i.stop)
	return i
}

// awaitRegistrations waits until the kubelet has accepted this many registrations and reads
// the stream of devices.
func (i *instance) awaitRegistrations(t *testing.T, count int) {
	t.Helper()
	await(t, func() bool {
		status := i.Status()
		return status.Registered && status.Registrations >= count
	}, func() any { return fmt.Sprintf("%+v", i.Status()) })
}

// tenGPUs are five pairs, the first three of which are on NUMA node 0.
func tenGPUs() []deviceplugin.Device {
	devices := make([]deviceplugin.Device, 10)
	for place := range devices {
		devices[place] = deviceplugin.Device{ID: gpuID(place), Healthy: true, NVLinkGroup: place / 2, NUMANode: place / 6}
	}
	return devices
}

func gpuID(place int) string { return fmt.Sprintf("GPU-%d", place) }

func gpuIDs(places ...int) []string {
	ids := make([]string, 0, len(places))
	for _, place := range places {
		ids = append(ids, gpuID(place))
	}
	return ids
}

// pool returns a pool of devices.
func pool(t *testing.T, devices []deviceplugin.Device) *deviceplugin.Pool {
	t.Helper()
	pool := deviceplugin.NewPool()
	set(t, pool, devices)
	return pool
}

func set(t *testing.T, pool *deviceplugin.Pool, devices []deviceplugin.Device) {
	t.Helper()
	if err := pool.Set(devices, nil); err != nil {
		t.Fatal(err)
	}
}

// newPod returns a Pod whose container requests an amount of each resource.
func newPod(name string, wants map[string]int64) *corev1.Pod {
	limits := corev1.ResourceList{}
	for name, amount := range wants {
		limits[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "gpu-task", Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits},
		}}},
	}
}

func gpuPod(name string, amount int64) *corev1.Pod {
	return newPod(name, map[string]int64{gpus: amount})
}

// withInit gives a Pod an init container that requests GPUs.
func withInit(pod *corev1.Pod, amount int64) *corev1.Pod {
	init := gpuPod("", amount).Spec.Containers[0]
	init.Name = "init"
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
	return pod
}

// assign writes the scheduler's choice of GPUs into a Pod.
func assign(t *testing.T, pod *corev1.Pod, ids ...string) *corev1.Pod {
	t.Helper()
	return assignOf(t, gpus, pod, ids...)
}

// assignOf writes the scheduler's choice of a resource's devices into a Pod.
func assignOf(t *testing.T, resource string, pod *corev1.Pod, ids ...string) *corev1.Pod {
	t.Helper()
	var assignment inventory.Assignment
	assignment.Add(pod.Spec.Containers[0].Name, resource, ids...)
	value, err := assignment.String()
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations = map[string]string{inventory.AssignmentAnnotation: value}
	return pod
}
