// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/wait"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/clock"
)

// connection is a registration that a kubelet has accepted.
type connection struct {
	path    string
	conn    *grpc.ClientConn
	stopped bool
}

// bookkeeping is how a kubelet keeps the plugins of a resource.
type bookkeeping interface {
	// add refuses or keeps a new connection.
	add(c *connection) error
	// ended says that the stream of a connection has ended, and returns the one that the
	// kubelet then closes, if any, and whether the resource has a plugin left.
	ended(c *connection) (closed *connection, left bool)
	// endpoint is the connection for allocations.
	endpoint() *connection
}

// onePlugin is the bookkeeping up to 1.36.
type onePlugin struct{ client, last *connection }

func (o *onePlugin) add(c *connection) error {
	o.client, o.last = c, c
	return nil
}

// ended takes the end of any stream for that of the latest plugin.
func (o *onePlugin) ended(*connection) (*connection, bool) {
	closed := o.client
	o.client = nil
	return closed, false
}

func (o *onePlugin) endpoint() *connection { return o.last }

// pluginOfEachSocket is the bookkeeping from 1.37 on.
type pluginOfEachSocket struct {
	clients []*connection
	store   map[string]*connection
	last    *connection
}

func (p *pluginOfEachSocket) add(c *connection) error {
	if p.store[c.path] != nil {
		// It forgets the accepted client as well, and so never drops the plugin.
		p.forget(c.path)
		return fmt.Errorf("device plugin already connected: %s", c.path)
	}
	p.clients = append(p.clients, c)
	p.store[c.path], p.last = c, c
	return nil
}

func (p *pluginOfEachSocket) ended(c *connection) (*connection, bool) {
	if !slices.Contains(p.clients, c) {
		return nil, true
	}
	p.forget(c.path)
	delete(p.store, c.path)
	for _, remaining := range p.store {
		p.last = remaining
	}
	return c, len(p.store) > 0
}

func (p *pluginOfEachSocket) forget(path string) {
	p.clients = slices.DeleteFunc(p.clients, func(c *connection) bool { return c.path == path })
}

func (p *pluginOfEachSocket) endpoint() *connection { return p.last }

// manager reads the devices of one resource's plugins as a kubelet's device manager does.
type manager struct {
	pluginapi.UnimplementedRegistrationServer

	dir string

	mu      sync.Mutex
	books   bookkeeping
	offered []string
}

func (m *manager) Register(ctx context.Context, request *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	path := filepath.Join(m.dir, request.Endpoint)
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	c := &connection{path: path, conn: conn}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.books.add(c); err != nil {
		_ = conn.Close()
		return nil, err
	}
	go m.read(context.WithoutCancel(ctx), c)
	return &pluginapi.Empty{}, nil
}

// read reads a plugin's list until its stream ends.
func (m *manager) read(ctx context.Context, c *connection) {
	stream, err := pluginapi.NewDevicePluginClient(c.conn).ListAndWatch(ctx, &pluginapi.Empty{})
	for err == nil {
		var list *pluginapi.ListAndWatchResponse
		if list, err = stream.Recv(); err == nil {
			m.offer(list)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	closed, left := m.books.ended(c)
	if closed == nil {
		return
	}
	_ = closed.conn.Close()
	closed.stopped = true
	if !left {
		m.offered = nil
	}
}

func (m *manager) offer(list *pluginapi.ListAndWatchResponse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offered = nil
	for _, device := range list.Devices {
		if device.Health == pluginapi.Healthy {
			m.offered = append(m.offered, device.ID)
		}
	}
}

// allocate allocates all devices, which must be these.
func (m *manager) allocate(ctx context.Context, want []string) error {
	m.mu.Lock()
	offered, endpoint := slices.Clone(m.offered), m.books.endpoint()
	stopped := endpoint == nil || endpoint.stopped
	m.mu.Unlock()
	if !slices.Equal(offered, want) {
		return fmt.Errorf("%v are offered, want %v", offered, want)
	}
	if stopped {
		return errors.New("the resource has no plugin")
	}
	_, err := pluginapi.NewDevicePluginClient(endpoint.conn).Allocate(ctx, &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: offered}},
	})
	return err
}

// awaitAllocation waits until these devices are offered and can be allocated.
func (m *manager) awaitAllocation(t *testing.T, what string, ids ...string) {
	t.Helper()
	m.await(t, what, func(ctx context.Context) error { return m.allocate(ctx, ids) })
}

func (m *manager) await(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	var problem error
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		problem = check(ctx)
		return problem == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, problem)
	}
}

// startPlugin runs a plugin with these devices as an agent does.
func (m *manager) startPlugin(t *testing.T, ids ...string) (stop func()) {
	t.Helper()
	plugin, err := New(Config{
		Resource: gpuResource, Pool: poolOf(t, gpus(ids...)), Dir: m.dir, Clock: clock.RealClock{},
		Timing: Timing{Poll: time.Second, Retry: 10 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		plugin.Run(ctx)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// TestAPluginOutlivesOthersOnEveryKubelet has plugins with different devices, one of which
// remains.
func TestAPluginOutlivesOthersOnEveryKubelet(t *testing.T) {
	t.Parallel()
	kubelets := map[string]func() bookkeeping{
		"up to 1.36":   func() bookkeeping { return &onePlugin{} },
		"from 1.37 on": func() bookkeeping { return &pluginOfEachSocket{store: map[string]*connection{}} },
	}
	orders := map[string][]int{
		"the old one stops":                   {0, 1},
		"the new one stops":                   {1, 0},
		"of three, the newest remains":        {0, 1, 2},
		"of three, the oldest remains":        {2, 1, 0},
		"of three, the one between remains":   {0, 2, 1},
		"of three, the newest leaves earlier": {2, 0, 1},
	}
	for version, newBooks := range kubelets {
		for name, order := range orders {
			t.Run(version+": "+name, func(t *testing.T) {
				t.Parallel()
				m := newManager(t, newBooks())
				devices := []string{"a", "b", "c"}[:len(order)]
				var stops []func()
				for _, device := range devices {
					stops = append(stops, m.startPlugin(t, device))
					m.awaitAllocation(t, "when it has started", device)
				}
				for _, place := range order[:len(order)-1] {
					stops[place]()
				}
				remaining := order[len(order)-1]
				m.awaitAllocation(t, "when the others have left", devices[remaining])
				stops[remaining]()
				m.await(t, "when all have left", func(context.Context) error { return m.offersNothing() })
				m.startPlugin(t, "d")
				m.awaitAllocation(t, "when another one has started", "d")
			})
		}
	}
}

func newManager(t *testing.T, books bookkeeping) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugin") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &manager{dir: dir, books: books}
	serveKubelet(t, dir, m)
	return m
}

func (m *manager) offersNothing() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.offered) > 0 {
		return fmt.Errorf("%v are still offered", m.offered)
	}
	return nil
}
