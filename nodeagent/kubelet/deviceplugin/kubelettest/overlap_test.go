// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelettest

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/wait"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
)

// brokenGPUs are ten GPUs, of which some are broken.
func brokenGPUs(broken int) []deviceplugin.Device {
	devices := tenGPUs()
	for place := range broken {
		devices[place].Healthy = false
	}
	return devices
}

// TestPluginsOverlap has three plugins of a resource that offer different devices, so that
// it shows whose are on offer.
func TestPluginsOverlap(t *testing.T) {
	t.Parallel()
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for _, order := range orders {
		for _, slowly := range []bool{false, true} {
			t.Run(fmt.Sprintf("and stop in the order %v, slowly: %v", order, slowly), func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				k := m.startKubelet(t)
				var plugins []*instance
				for broken := range int64(3) {
					plugins = append(plugins, m.start(t, gpus, pool(t, brokenGPUs(int(broken)))))
					k.awaitAmount(t, gpus, amount{10, 10 - broken})
				}
				first, second, last := plugins[order[0]], plugins[order[1]], plugins[order[2]]
				first.stop()
				if slowly {
					second.awaitRegistrations(t, 2)
					last.awaitRegistrations(t, 2)
				}
				before := last.Status().Registrations
				second.stop()
				last.awaitRegistrations(t, before+1)
				healthy := int64(10 - order[2])
				k.awaitAmount(t, gpus, amount{10, healthy})
				pod := gpuPod("works", healthy)
				k.mustAdmit(t, pod)
				await(t, func() bool { return len(m.sockets(t)) == 2 }, func() any { return m.sockets(t) })

				last.stop()
				k.awaitAmount(t, gpus, amount{10, 0})
				m.end(pod.UID)
				m.start(t, gpus, pool(t, tenGPUs()))
				k.awaitAmount(t, gpus, amount{10, 10})
				k.mustAdmit(t, gpuPod("works-too", 10))
			})
		}
	}
}

// TestTwoPluginsDoNotFight keeps two plugins of a resource running, as a mistake in a
// DaemonSet would, through restarts of the kubelet.
func TestTwoPluginsDoNotFight(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	one, two := m.start(t, gpus, pool(t, tenGPUs())), m.start(t, gpus, pool(t, tenGPUs()))
	for life := 1; life <= 3; life++ {
		one.awaitRegistrations(t, life)
		two.awaitRegistrations(t, life)
		k.awaitAmount(t, gpus, amount{10, 10})
		if life < 3 {
			k.stop()
			k = m.startKubelet(t)
		}
	}
	count := func() int { return one.Status().Registrations + two.Status().Registrations }
	// Each may notice the other's socket late, and register once more.
	settled := count() + 2
	quiet, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err := wait.PollUntilContextCancel(quiet, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return count() > settled || k.amount(gpus) != amount{10, 10}, nil
	})
	if err == nil {
		t.Errorf("%d registrations, %+v", count(), k.amount(gpus))
	}
	k.mustAdmit(t, gpuPod("works", 10))
}

// rogue registers like a plugin that is then killed: it leaves its socket.
func (m *machine) rogue(t *testing.T) (kill func()) {
	t.Helper()
	const name = "falldio.com_gpu-deadbeef.sock"
	listener, err := net.Listen("unix", filepath.Join(m.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, rogueService{})
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("unix://"+filepath.Join(m.dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = pluginapi.NewRegistrationClient(conn).Register(t.Context(), &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: name, ResourceName: gpus,
	})
	if err != nil {
		t.Fatal(err)
	}
	return server.Stop
}

type rogueService struct {
	pluginapi.UnimplementedDevicePluginServer
}

func (rogueService) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (rogueService) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	if err := stream.Send(&pluginapi.ListAndWatchResponse{}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func TestAnOverlappingPluginIsKilled(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	plugin := m.start(t, gpus, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})
	kill := m.rogue(t)
	k.awaitAmount(t, gpus, amount{0, 0})
	kill()
	k.awaitAmount(t, gpus, amount{10, 10})
	plugin.awaitRegistrations(t, 2)
	k.mustAdmit(t, gpuPod("works", 10))
	await(t, func() bool { return len(m.sockets(t)) == 2 }, func() any { return m.sockets(t) })
	plugin.stop()
	k.awaitAmount(t, gpus, amount{10, 0})
}

func TestTheSocketOfADeadPluginIsDeleted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	k := m.startKubelet(t)
	m.rogue(t)()
	m.start(t, gpus, pool(t, tenGPUs()))
	k.awaitAmount(t, gpus, amount{10, 10})
	await(t, func() bool { return len(m.sockets(t)) == 2 }, func() any { return m.sockets(t) })
}
