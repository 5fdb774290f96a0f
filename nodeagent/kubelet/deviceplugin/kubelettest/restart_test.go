// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelettest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func TestThePluginRestarts(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	first := m.start(t, gpus, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})
	pod := gpuPod("works", 8)
	k.mustAdmit(t, pod)
	before := k.devices(pod, gpus)

	first.stop()
	k.awaitAmount(t, gpus, amount{10, 0})
	if sockets := m.sockets(t); len(sockets) != 1 {
		t.Errorf("the plugin left its socket: %v", sockets)
	}
	m.start(t, gpus, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})
	if diff := cmp.Diff(before, k.devices(pod, gpus)); diff != "" {
		t.Errorf("devices of the running Pod (-before +after):\n%s", diff)
	}
	// Its container restarts.
	if err := k.admit(pod); err != nil {
		t.Errorf("the container can't restart: %v", err)
	}
	k.mustAdmit(t, gpuPod("new", 2))
}

func TestTheKubeletRestarts(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	p := pool(t, tenGPUs())
	plugin := m.start(t, gpus, p)
	other := m.start(t, rdma, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})
	k.awaitAmount(t, rdma, amount{10, 10})
	pod := gpuPod("works", 8)
	k.mustAdmit(t, pod)
	before := k.devices(pod, gpus)

	for life := 2; life <= 4; life++ {
		k.stop()
		k = m.startKubelet(t)
		plugin.awaitRegistrations(t, life)
		other.awaitRegistrations(t, life)
		k.awaitAmount(t, gpus, amount{10, 10})
		k.awaitAmount(t, rdma, amount{10, 10})
		if diff := cmp.Diff(before, k.devices(pod, gpus)); diff != "" {
			t.Errorf("devices of the running Pod (-before +after):\n%s", diff)
		}
	}
	next := gpuPod("new", 2)
	k.mustAdmit(t, next)
	if diff := cmp.Diff(gpuIDs(8, 9), k.devices(next, gpus)); diff != "" {
		t.Errorf("devices of the new Pod (-want +got):\n%s", diff)
	}
}

func TestTheKubeletComesLater(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	plugin := m.start(t, gpus, pool(t, tenGPUs()))
	await(t, func() bool { return plugin.Status().LastError != nil }, func() any { return "no complaint" })
	k := m.startKubelet(t)
	k.awaitAmount(t, gpus, amount{10, 10})
}

func TestTheDirectoryComesLater(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := os.Remove(m.dir); err != nil {
		t.Fatal(err)
	}
	plugin := m.start(t, gpus, pool(t, tenGPUs()))
	await(t, func() bool { return plugin.Status().LastError != nil }, func() any { return "no complaint" })
	k := m.startKubelet(t)
	k.awaitAmount(t, gpus, amount{10, 10})
}

func TestTheSocketIsDeleted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	plugin := m.start(t, gpus, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})
	before := m.sockets(t)
	for _, name := range before {
		if name != "kubelet.sock" {
			if err := os.Remove(filepath.Join(m.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	await(t, func() bool { return cmp.Equal(before, m.sockets(t)) }, func() any { return m.sockets(t) })
	k.awaitAmount(t, gpus, amount{10, 10})
	if got := plugin.Status(); !got.Registered || got.Registrations != 1 {
		t.Errorf("the connection was lost: %+v", got)
	}
	// The kubelet keeps its old connection; new ones must be served as well.
	for _, name := range m.sockets(t) {
		if name != "kubelet.sock" {
			callPlugin(t, filepath.Join(m.dir, name))
		}
	}
}

// callPlugin connects to a plugin and calls it.
func callPlugin(t *testing.T, socket string) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	options, err := pluginapi.NewDevicePluginClient(conn).GetDevicePluginOptions(ctx, &pluginapi.Empty{}, grpc.WaitForReady(true))
	if err != nil || !options.GetPreferredAllocationAvailable {
		t.Errorf("GetDevicePluginOptions() = %v, %v", options, err)
	}
}

// sockets returns the names of the sockets in the directory.
func (m *machine) sockets(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(m.dir, "*.sock"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths
}
