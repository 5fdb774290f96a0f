// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/clock"
)

// Config configures a Plugin.
type Config struct {
	// Resource is the extended resource's name, for example "falldio.com/gpu".
	Resource string
	// Pool is its devices.
	Pool *Pool
	// Sharing makes the resource allocate shares of the devices; nil for whole ones.
	Sharing *Sharing
	// Slicing makes it allocate MIG slices, which are the devices; nil if they are none.
	Slicing *Slicing
	// Counterpart is the resource that allocates the same devices in the other way, whole
	// or in shares, and Usage is what is in use in both ways. Optional.
	Counterpart string
	Usage       *Usage
	// Tracker has the scheduler's choices. Optional.
	Tracker AllocationTracker
	// CDIKind returns the kind of the devices for the Container Device Interface, for
	// example "nvidia.com/gpu"; empty or nil for none. It may become known later than the plugin
	// is created, but no later than the Pool has devices.
	CDIKind func() string
	// EnvVar is the environment variable for the IDs of a container's devices, unless they are
	// added over that interface; none if empty.
	EnvVar string
	// Allocated is called after every allocation, and must return at once.
	// Optional.
	Allocated func()
	// Dir is the kubelet's directory for device plugins; the kubelet's default if empty.
	Dir   string
	Clock clock.Clock
	// Timing has defaults.
	Timing Timing
}

// Timing is the intervals and timeouts of a Plugin. Zero stands for the default.
type Timing struct {
	// Poll is how often to check the registration without any event: 10s.
	Poll time.Duration
	// Retry is the initial backoff before a lost registration is renewed: 500ms. It
	// doubles with each failure, up to MaxRetry: 30s; jitter adds up to as much again.
	Retry, MaxRetry time.Duration
	// Stream is how long the kubelet may take to open the stream of devices after it has
	// accepted a registration: 5s.
	Stream time.Duration
}

func (t Timing) withDefaults() Timing {
	return Timing{
		Poll:     cmp.Or(t.Poll, 10*time.Second),
		Retry:    cmp.Or(t.Retry, 500*time.Millisecond),
		MaxRetry: cmp.Or(t.MaxRetry, 30*time.Second),
		Stream:   cmp.Or(t.Stream, 5*time.Second),
	}
}

// Plugin serves a resource to the kubelet.
type Plugin struct {
	config  Config
	sockets *sockets
	streams *streams
	service *service

	mu            sync.Mutex
	registrations int
	lastError     error
}

// New returns a Plugin that does nothing until Run.
func New(config Config) (*Plugin, error) {
	if problems := validation.IsQualifiedName(config.Resource); len(problems) > 0 {
		return nil, fmt.Errorf("resource %q: %s", config.Resource, problems[0])
	}
	if !strings.Contains(config.Resource, "/") {
		return nil, fmt.Errorf("resource %q: an extended resource's name begins with a domain", config.Resource)
	}
	if config.Pool == nil || config.Clock == nil {
		return nil, errors.New("a device plugin needs devices and a clock")
	}
	if config.Dir == "" {
		config.Dir = pluginapi.DevicePluginPath
	}
	config.Timing = config.Timing.withDefaults()
	p := &Plugin{config: config, sockets: newSockets(config.Dir, config.Resource), streams: newStreams()}
	p.service = &service{
		resource: config.Resource, counterpart: config.Counterpart, allocator: config.allocator(), pool: config.Pool,
		tracker: config.Tracker, usage: config.Usage, allocated: config.Allocated, streams: p.streams,
	}
	return p, nil
}

func (c *Config) allocator() allocator {
	visible := visibility{envVar: c.EnvVar, cdiKind: c.CDIKind}
	if c.Sharing != nil {
		return &sharing{visibility: visible, mps: c.Sharing.MPS, limitsMemory: c.Sharing.LimitsMemory}
	}
	if c.Slicing != nil {
		return &slicing{whole: whole{visibility: visible}, gpus: c.Slicing.GPUs}
	}
	return &whole{visibility: visible}
}

// Run serves the resource, as soon as there are devices, until ctx ends. It may be called
// only once. No failure of the kubelet ends it earlier.
func (p *Plugin) Run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("resource", p.config.Resource)
	ctx = klog.NewContext(ctx, logger)
	p.service.logger = logger
	if !p.awaitDevices(ctx) {
		return
	}
	server := newServer(p.service)
	dir := newDirWatcher(ctx, p.config.Dir)
	defer dir.close()
	registrar := newRegistrar(p, server, dir)
	for ctx.Err() == nil {
		registrar.wait(ctx, registrar.reconcile(ctx))
	}
	p.streams.stop()
	server.stop(p.config.Clock)
	logger.V(2).Info("Stopped")
}

// awaitDevices returns false if ctx ends first.
func (p *Plugin) awaitDevices(ctx context.Context) bool {
	for {
		_, changed := p.config.Pool.list()
		if p.config.Pool.ready() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (p *Plugin) kubeletSocket() string {
	return filepath.Join(p.config.Dir, filepath.Base(pluginapi.KubeletSocket))
}
