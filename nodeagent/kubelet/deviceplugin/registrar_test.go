// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"
)

// fakeKubelet accepts or refuses registrations and does nothing else.
type fakeKubelet struct {
	pluginapi.UnimplementedRegistrationServer
	refuses atomic.Bool
	calls   atomic.Int32
	// endpoints receives the sockets that register, unless nil.
	endpoints func(socket string)
}

func (f *fakeKubelet) Register(_ context.Context, request *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	f.calls.Add(1)
	if f.endpoints != nil {
		f.endpoints(request.Endpoint)
	}
	if f.refuses.Load() {
		return nil, errors.New("not today")
	}
	return &pluginapi.Empty{}, nil
}

// serve starts the kubelet and returns a function that stops it and deletes its socket.
func (f *fakeKubelet) serve(t *testing.T, dir string) (stop func()) {
	t.Helper()
	return serveKubelet(t, dir, f)
}

func serveKubelet(t *testing.T, dir string, kubelet pluginapi.RegistrationServer) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, kubelet)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return server.Stop
}

// testRegistrar is a registrar with a fake clock.
type testRegistrar struct {
	*registrar
	clock *clocktesting.FakeClock
	dir   string
}

func newTestRegistrar(t *testing.T) *testRegistrar {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugin") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	plugin, err := New(Config{Resource: gpuResource, Pool: poolOf(t, gpus("a")), Dir: dir, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	watcher := newDirWatcher(t.Context(), dir)
	t.Cleanup(watcher.close)
	server := newServer(plugin.service)
	t.Cleanup(server.grpc.Stop)
	return &testRegistrar{registrar: newRegistrar(plugin, server, watcher), clock: clock, dir: dir}
}

// expectDelay reconciles, and expects that the next time is due after least to twice least.
func (b *testRegistrar) expectDelay(t *testing.T, what string, least time.Duration) time.Duration {
	t.Helper()
	got := b.reconcile(t.Context())
	if got < least || got > 2*least {
		t.Errorf("%s: reconciles again in %v, want %v to %v", what, got, least, 2*least)
	}
	return got
}

func TestRefusedRegistrationsAreRetriedLessAndLessOften(t *testing.T) {
	t.Parallel()
	b := newTestRegistrar(t)
	kubelet := &fakeKubelet{}
	kubelet.refuses.Store(true)
	kubelet.serve(t, b.dir)
	for _, least := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		calls := kubelet.calls.Load()
		delay := b.expectDelay(t, "after a refusal", least)
		b.clock.Step(delay - time.Nanosecond)
		if b.reconcile(t.Context()) != time.Nanosecond || kubelet.calls.Load() != calls+1 {
			t.Fatal("the delay was not kept")
		}
		b.clock.Step(time.Nanosecond)
	}
	if err := b.Status().LastError; err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("LastError = %v", err)
	}
	kubelet.refuses.Store(false)
	b.reconcile(t.Context())
	if got := b.Status(); got.Registrations != 1 || got.LastError != nil {
		t.Errorf("Status() = %+v", got)
	}
}

func TestThePluginRegistersAgainWithoutAStream(t *testing.T) {
	t.Parallel()
	b := newTestRegistrar(t)
	kubelet := &fakeKubelet{}
	kubelet.serve(t, b.dir)
	if got := b.reconcile(t.Context()); got != b.config.Timing.Stream {
		t.Errorf("reconciles again in %v", got)
	}
	b.clock.Step(b.config.Timing.Stream)
	delay := b.expectDelay(t, "without a stream", b.config.Timing.Retry)
	if !errors.Is(b.Status().LastError, errNoStream) {
		t.Errorf("Status() = %+v", b.Status())
	}
	b.clock.Step(delay)
	b.reconcile(t.Context())
	registration := b.streams.begin()
	if got := b.reconcile(t.Context()); got != b.config.Timing.Poll || !b.Status().Registered || kubelet.calls.Load() != 2 {
		t.Errorf("reconciles again in %v, %+v, %d calls", got, b.Status(), kubelet.calls.Load())
	}
	b.streams.end(registration)
	b.expectDelay(t, "after a second loss", 2*b.config.Timing.Retry)
	if !errors.Is(b.Status().LastError, errLost) || b.Status().Registered {
		t.Errorf("Status() = %+v", b.Status())
	}
}

// TestEveryRegistrationHasASocketOfItsOwn has registrations that are refused, lost, without
// a stream, doubtful since another plugin has left, and with another kubelet.
func TestEveryRegistrationHasASocketOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newTestRegistrar(t)
	var sockets []string
	kubelet := &fakeKubelet{endpoints: func(socket string) { sockets = append(sockets, socket) }}
	stop := kubelet.serve(t, b.dir)
	other := newSockets(b.dir, gpuResource)
	again := func(what string) {
		t.Helper()
		calls := kubelet.calls.Load()
		b.clock.Step(time.Hour)
		b.reconcile(t.Context()) // notices that the registration is no good
		b.clock.Step(time.Hour)
		b.reconcile(t.Context())
		if kubelet.calls.Load() == calls {
			t.Errorf("%s: it does not register again", what)
		}
		files, err := filepath.Glob(filepath.Join(b.dir, "falldio*"))
		if err != nil || len(files) != 1 || filepath.Base(files[0]) != sockets[len(sockets)-1] {
			t.Errorf("%s: %s has registered, and there are %v, %v", what, sockets[len(sockets)-1], files, err)
		}
		// To others it is still the same plugin.
		if got, err := other.others(t.Context(), b.clock.Now()); err != nil || !maps.Equal(got, map[string]bool{b.sockets.instance: true}) {
			t.Errorf("%s: others see %v, %v", what, got, err)
		}
	}
	kubelet.refuses.Store(true)
	b.reconcile(t.Context())
	again("refused")
	kubelet.refuses.Store(false)
	again("accepted at last")
	again("without a stream")
	b.streams.end(b.streams.begin())
	again("lost")
	b.streams.begin()
	b.others = map[string]bool{"gone": true}
	again("another one has left")
	b.streams.begin()
	stop()
	kubelet.serve(t, b.dir)
	again("another kubelet")
	slices.Sort(sockets)
	if unique := slices.Compact(slices.Clone(sockets)); len(unique) != len(sockets) {
		t.Errorf("registrations share a socket: %v", sockets)
	}
}

func TestBackoffStartsOverAfterALongTime(t *testing.T) {
	t.Parallel()
	b := newTestRegistrar(t)
	(&fakeKubelet{}).serve(t, b.dir)
	b.reconcile(t.Context())
	b.failures = 5
	registration := b.streams.begin()
	b.clock.Step(time.Hour)
	b.streams.end(registration)
	b.expectDelay(t, "after an hour", b.config.Timing.Retry)
}

func TestThePluginRegistersAtOnceWithANewKubelet(t *testing.T) {
	t.Parallel()
	b := newTestRegistrar(t)
	if got := b.reconcile(t.Context()); got != b.config.Timing.Poll || !errors.Is(b.Status().LastError, errNoKubelet) {
		t.Errorf("without a kubelet: reconciles again in %v, %+v", got, b.Status())
	}
	first, second := &fakeKubelet{}, &fakeKubelet{}
	first.refuses.Store(true)
	stop := first.serve(t, b.dir)
	b.reconcile(t.Context())
	b.failures = 10
	stop()
	b.reconcile(t.Context())
	second.serve(t, b.dir)
	b.reconcile(t.Context())
	if b.Status().Registrations != 1 || b.failures != 0 {
		t.Errorf("Status() = %+v after %d failures", b.Status(), b.failures)
	}
}

func TestAPluginServesWithoutAWatch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		obstruct func(t *testing.T, b *testRegistrar)
		// delay is when it reconciles again after the grace period.
		delay time.Duration
	}{
		"the directory can't be watched": {func(_ *testing.T, b *testRegistrar) {
			b.registrar.dir.add = func(string) error { return syscall.ENOSPC }
		}, blindPoll},
		"there is no watcher": {func(_ *testing.T, b *testRegistrar) {
			b.registrar.dir.close()
			b.registrar.dir.watcher, b.registrar.dir.blind = nil, true
		}, blindPoll},
		"the directory can't be read": {func(_ *testing.T, b *testRegistrar) {
			b.sockets.readDir = func(string) ([]os.DirEntry, error) { return nil, syscall.EMFILE }
		}, 10 * time.Second},
		"a dead socket can't be deleted": {func(t *testing.T, b *testRegistrar) {
			t.Helper()
			if err := os.MkdirAll(filepath.Join(b.dir, "falldio.com_gpu-deadbeef.sock", "x"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, deathGrace},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTestRegistrar(t)
			(&fakeKubelet{}).serve(t, b.dir)
			test.obstruct(t, b)
			var lines []string
			ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) {
				if strings.Contains(line, "error") {
					lines = append(lines, line)
				}
			}, funcr.Options{}))
			b.reconcile(ctx)
			b.streams.begin()
			for range 3 {
				b.clock.Step(deathGrace)
				if got := b.reconcile(ctx); got != test.delay {
					t.Errorf("reconciles again in %v, want %v", got, test.delay)
				}
			}
			if got := b.Status(); got.Registrations != 1 || !got.Registered {
				t.Errorf("Status() = %+v", got)
			}
			if len(lines) > 1 {
				t.Errorf("it is logged more than once: %q", lines)
			}
		})
	}
}

// TestOthersThatCannotBeSeenHaveNotLeft has another plugin of the resource and a dead one
// whose socket can't be deleted, and then a directory that can't be read.
func TestOthersThatCannotBeSeenHaveNotLeft(t *testing.T) {
	t.Parallel()
	b := newTestRegistrar(t)
	(&fakeKubelet{}).serve(t, b.dir)
	other := filepath.Join(b.dir, "falldio.com_gpu-12345678.sock")
	listener, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(b.dir, "falldio.com_gpu-deadbeef.sock", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.reconcile(t.Context())
	b.streams.begin()
	b.clock.Step(deathGrace)
	b.reconcile(t.Context())
	b.sockets.readDir = func(string) ([]os.DirEntry, error) { return nil, syscall.EMFILE }
	b.reconcile(t.Context())
	if b.problem != nil {
		t.Fatalf("without having read the directory: %v", b.problem)
	}
	_ = listener.Close()
	b.sockets.readDir = os.ReadDir
	b.reconcile(t.Context())
	if !errors.Is(b.problem, errOtherLeft) {
		t.Errorf("problem = %v, want %v", b.problem, errOtherLeft)
	}
}

// TestAPluginThatHasComeAndGoneHasLeft has another plugin of the resource whose socket is
// gone before this one looks.
func TestAPluginThatHasComeAndGoneHasLeft(t *testing.T) {
	t.Parallel()
	b := newTestRegistrar(t)
	(&fakeKubelet{}).serve(t, b.dir)
	b.reconcile(t.Context())
	b.streams.begin()
	other := filepath.Join(b.dir, "falldio.com_gpu-12345678.sock")
	listener, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close() // and delete the socket
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for b.problem == nil && ctx.Err() == nil {
		b.wait(ctx, time.Hour)
		b.reconcile(ctx)
	}
	if !errors.Is(b.problem, errOtherLeft) {
		t.Errorf("problem = %v, want %v", b.problem, errOtherLeft)
	}
}

func TestWithoutADirectoryThePluginWaits(t *testing.T) {
	t.Parallel()
	b := newTestRegistrar(t)
	if err := os.Remove(b.dir); err != nil {
		t.Fatal(err)
	}
	if got := b.reconcile(t.Context()); got != b.config.Timing.Retry || !errors.Is(b.Status().LastError, os.ErrNotExist) {
		t.Errorf("reconciles again in %v, %+v", got, b.Status())
	}
}

func TestNewRefusesWhatTheKubeletWould(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"", "gpu", "falldio.com/gpu/x", "falldio.com/"} {
		if _, err := New(Config{Resource: resource, Pool: NewPool(), Clock: clocktesting.NewFakeClock(time.Unix(0, 0))}); err == nil {
			t.Errorf("resource %q is accepted", resource)
		}
	}
	if _, err := New(Config{Resource: gpuResource}); err == nil {
		t.Error("a plugin without devices is accepted")
	}
}
