// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/resource"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/nodeagent/metrics"
	"falldio.github.io/gpu-controller/nodeagent/node/assignment"
	"falldio.github.io/gpu-controller/nodeagent/node/kube"
	"falldio.github.io/gpu-controller/nodeagent/node/publish"
)

// The folders below --kubelet-directory, and the socket in the second one.
const (
	pluginFolder       = "device-plugins"
	podResourcesFolder = "pod-resources"
	podResourcesSocket = "kubelet.sock"
)

// plugins are the node's device plugins and what belongs to them.
type plugins struct {
	clock     clock.Clock
	gpus      *deviceplugin.Pool
	all       []*deviceplugin.Plugin
	pods      *kube.PodInformer
	claims    *deviceplugin.PodClaims
	usage     *deviceplugin.Usage
	kubelet   *podresources.Client
	holders   *metrics.Holders
	corrector *assignment.Corrector
	// allocated has an entry when a container has got devices.
	allocated chan struct{}
}

// newPlugins makes the device plugins of an agent and shows them in its metrics.
func newPlugins(a *agent, clients *clients, opts *options) (*plugins, error) {
	p := &plugins{clock: a.clock, gpus: deviceplugin.NewPool(), allocated: make(chan struct{}, 1)}
	var err error
	if p.pods, err = kube.NewPodInformer(clients.config, a.node); err != nil {
		return nil, err
	}
	if p.kubelet, err = podresources.NewClient(filepath.Join(opts.kubeletDirectory, podResourcesFolder, podResourcesSocket)); err != nil {
		return nil, err
	}
	ofGPUs, names := namesOf(opts.served)
	p.claims = deviceplugin.NewPodClaims(p.pods.List, p.clock, ofGPUs[resource.Shares])
	p.usage = deviceplugin.NewUsage(p.kubelet, p.clock)
	p.holders = metrics.NewHolders(p.kubelet)
	for i := range opts.served {
		if err := p.add(&opts.served[i], ofGPUs, opts); err != nil {
			return nil, err
		}
	}
	p.corrector = assignment.NewCorrector(p.pods.List, kube.PatchPod(a.client, publish.FieldManager), names)
	a.metrics.Holders = p.holders
	for _, plugin := range p.all {
		a.metrics.Plugins = append(a.metrics.Plugins, pluginMetrics{plugin})
	}
	return p, nil
}

// namesOf returns the names of all resources, and of those that are the GPUs and
// shares of them; empty if there are none.
func namesOf(served []resource.Spec) (ofGPUs map[resource.Kind]string, all []string) {
	ofGPUs = map[resource.Kind]string{}
	for i := range served {
		all = append(all, served[i].Name)
		ofGPUs[served[i].Kind] = served[i].Name
	}
	return ofGPUs, all
}

// add makes the plugin of a resource.
func (p *plugins) add(spec *resource.Spec, ofGPUs map[resource.Kind]string, opts *options) error {
	config := deviceplugin.Config{
		Resource: spec.Name, Claims: p.claims, EnvVar: spec.Environment, Allocated: p.noteAllocation,
		Dir: filepath.Join(opts.kubeletDirectory, pluginFolder), Clock: p.clock,
	}
	switch spec.Kind {
	case resource.GPUs:
		config.Pool, config.CDIKind = p.gpus, opts.cdiKind
		config.Counterpart, config.Usage = ofGPUs[resource.Shares], p.usage
	case resource.Shares:
		config.Pool, config.CDIKind = p.gpus, opts.cdiKind
		config.Counterpart, config.Usage = ofGPUs[resource.GPUs], p.usage
		config.Sharing = &deviceplugin.Sharing{MPSPipeDirectory: opts.mpsPipeDirectory}
	case resource.Simulated, resource.None:
		config.Pool = deviceplugin.NewPool()
		if err := config.Pool.Set(deviceplugin.Counted(spec.ShortName(), spec.Count), nil); err != nil {
			return err
		}
	}
	plugin, err := deviceplugin.New(config)
	p.all = append(p.all, plugin)
	return err
}

// run serves the kubelet until ctx ends.
func (p *plugins) run(ctx context.Context, gpus *monitor.Monitor, restored <-chan struct{}) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		p.pods.Run(ctx)
		return nil
	})
	p.await(ctx, restored, p.pods.Synced())
	p.hold(ctx)
	for _, plugin := range p.all {
		group.Go(func() error {
			plugin.Run(ctx)
			return nil
		})
	}
	group.Go(func() error {
		p.correctAfterAllocations(ctx)
		return nil
	})
	group.Go(func() error {
		p.follow(ctx, gpus)
		return nil
	})
	err := group.Wait()
	return errors.Join(err, p.kubelet.Close())
}

// restoreTimeout is how long GPUs may wait for the API server to tell of their
// faults and of the Pods that they were chosen for. Containers must get their
// devices without it, too.
const restoreTimeout = 5 * time.Second

func (p *plugins) await(ctx context.Context, all ...<-chan struct{}) {
	timer := p.clock.NewTimer(restoreTimeout)
	defer timer.Stop()
	for _, one := range all {
		select {
		case <-ctx.Done():
			return
		case <-one:
		case <-timer.C():
			klog.FromContext(ctx).Info("The API server does not answer: faults of an earlier life and the scheduler's choices are not known yet")
			return
		}
	}
}

// holdTimeout is how long a kubelet may take to say what is in use.
const holdTimeout = 2 * time.Second

// hold keeps devices in the lists that containers have although they are gone. A
// kubelet that does not run yet tells it later, to refresh.
func (p *plugins) hold(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, holdTimeout)
	defer cancel()
	p.refresh(ctx)
}

// follow tells the kubelet of the GPUs and their health.
func (p *plugins) follow(ctx context.Context, gpus *monitor.Monitor) {
	for {
		changed := gpus.Changed()
		snapshot := gpus.Snapshot()
		// Without a poll there may be GPUs; that there are none is worse than not
		// to know.
		if len(snapshot.Devices) > 0 || (!snapshot.Taken.IsZero() && snapshot.Problem == nil) {
			if err := p.gpus.Set(devices(snapshot), snapshot.NVLinks); err != nil {
				klog.FromContext(ctx).Error(err, "The GPUs can't be offered to the kubelet")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func devices(snapshot *gpu.Snapshot) []deviceplugin.Device {
	list := make([]deviceplugin.Device, 0, len(snapshot.Devices))
	for i := range snapshot.Devices {
		device := &snapshot.Devices[i]
		list = append(list, deviceplugin.Device{
			ID: device.UUID, Healthy: device.Healthy(), MemoryMiB: int64(device.MemoryBytes >> 20),
			NVLinkGroup: device.NVLinkGroup, NUMANode: device.NUMANode,
		})
	}
	return list
}

func (p *plugins) noteAllocation() {
	select {
	case p.allocated <- struct{}{}:
	default: // somebody is on the way
	}
}

// settleTime is how long the kubelet needs after an allocation until it tells of
// it.
const settleTime = 500 * time.Millisecond

// correctAfterAllocations looks soon at what the kubelet has done; refresh looks
// again later.
func (p *plugins) correctAfterAllocations(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.allocated:
		}
		timer := p.clock.NewTimer(settleTime)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		p.refresh(ctx)
	}
}

// refreshEvery is how often the kubelet is asked in any case: it answers from
// memory, and a metric must not show for long who no longer has a GPU.
const refreshEvery = 5 * time.Second

// refresh asks the kubelet which containers have which devices, for the metrics,
// the claims that are settled, and the Pods' annotations.
func (p *plugins) refresh(ctx context.Context) {
	asked := p.clock.Now()
	allocations, err := p.holders.Refresh(ctx)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The kubelet does not tell which devices are in use", "err", err)
		return
	}
	for _, plugin := range p.all {
		plugin.Pool().Hold(share.GPUs(podresources.DeviceIDs(allocations, plugin.Resource()))...)
	}
	p.usage.Observe(asked, allocations)
	p.claims.Observe(allocations)
	if _, err := p.corrector.Correct(ctx, allocations); err != nil {
		klog.FromContext(ctx).Error(err, "Telling which devices Pods have failed; this is tried again")
	}
}

// ready returns which plugin the kubelet does not listen to.
func (p *plugins) ready() error {
	for _, plugin := range p.all {
		status := plugin.Status()
		// A resource without devices is not registered: a kubelet that is told of
		// none forgets what it knew.
		if !status.Registered && len(plugin.Pool().Devices()) > 0 {
			return fmt.Errorf("the device plugin of %s is not registered with the kubelet: %w", plugin.Resource(),
				errors.Join(status.LastError, errNotRegistered))
		}
	}
	return nil
}

var errNotRegistered = errors.New("the kubelet has not been reached yet")

// pluginMetrics is what the metrics show of a plugin.
type pluginMetrics struct{ *deviceplugin.Plugin }

// Registered implements metrics.Plugin.
func (p pluginMetrics) Registered() bool { return p.Status().Registered }

// Registrations implements metrics.Plugin.
func (p pluginMetrics) Registrations() uint64 { return uint64(p.Status().Registrations) } //nolint:gosec // counts from 0

// Allocations implements metrics.Plugin.
func (p pluginMetrics) Allocations() uint64 { return uint64(p.Status().Allocations) } //nolint:gosec // counts from 0
