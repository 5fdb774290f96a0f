// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
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
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// The directories below --kubelet-directory, and the socket in the second one.
const (
	pluginFolder       = "device-plugins"
	podResourcesFolder = "pod-resources"
	podResourcesSocket = "kubelet.sock"
	// keptFile is in the first one, of which the kubelet removes only sockets.
	keptFile = "nodeagent-inventory.json"
)

// plugins has the node's device plugins and what they share.
type plugins struct {
	clock     clock.Clock
	gpus      *deviceplugin.Pool
	all       []*deviceplugin.Plugin
	pods      *kube.PodInformer
	tracker   *deviceplugin.PodAllocationTracker
	usage     *deviceplugin.Usage
	kubelet   *podresources.Client
	holders   *metrics.Holders
	corrector *assignment.Corrector
	injection *injection
	mps       *mpsDaemon
	mig       *migPlugins // nil if no slices are given out
	shares    *shares     // nil if none are given out
	use       *containerUse
	cleanUp   bool
	// allocated receives a value after an allocation.
	allocated chan struct{}
}

// newPlugins creates the device plugins of an agent and adds them to its metrics.
func newPlugins(a *agent, clients *clients, opts *options, injection *injection) (*plugins, error) {
	p := &plugins{clock: a.clock, gpus: deviceplugin.NewPool(), injection: injection, cleanUp: opts.cleanUpOnExit, allocated: make(chan struct{}, 1)}
	var err error
	if p.pods, err = kube.NewPodInformer(clients.config, a.node); err != nil {
		return nil, err
	}
	claimed := newClaimedGPUs(a.monitor.Snapshot, opts.injection.cdiSpecDir)
	socket := filepath.Join(opts.kubeletDirectory, podResourcesFolder, podResourcesSocket)
	if p.kubelet, err = podresources.NewClient(socket, claimed.translate); err != nil {
		return nil, err
	}
	ofGPUs, names := namesOf(opts.served)
	p.tracker = deviceplugin.NewPodAllocationTracker(p.pods.List, p.clock, ofGPUs[resource.Shares])
	p.usage = deviceplugin.NewUsage(p.kubelet, p.clock, names...)
	p.holders = metrics.NewHolders(p.kubelet)
	p.use = newContainerUse(opts.processMetrics, socket, p.holders, p.pods.List)
	p.mps = newMPSDaemon(opts, ofGPUs[resource.Shares], a.view, p.clock)
	if p.shares = newShares(ofGPUs[resource.Shares], opts, p.pods.List, p.mps.watcher, clients.events.Recorder(a.node), p.clock); p.shares != nil {
		a.metrics.Shares = p.shares
	}
	for i := range opts.served {
		if err := p.add(&opts.served[i], ofGPUs, opts); err != nil {
			return nil, err
		}
	}
	if spec, ok := opts.slicedGPUs(); ok {
		config := p.config(&spec, opts)
		config.Usage = p.usage
		p.mig = newMIGPlugins(&config, injection.available, names)
	}
	// The scheduler must know which GPUs Pods have, whoever gave them out.
	p.corrector = assignment.NewCorrector(p.pods.List, kube.PatchPod(a.client, publish.FieldManager), append(names, string(v1.ResourceNVIDIAGPU)))
	injection.report = func(ctx context.Context, problem error) {
		logProblem(ctx, problem)
		a.events.Warn(publish.ReasonNotOffered, "GPUs are not offered to the kubelet, since containers could not get them: "+problem.Error())
	}
	a.metrics.Holders, a.metrics.Containers = p.holders, p.use
	a.metrics.Plugins = p.statuses
	return p, nil
}

// running returns all plugins.
func (p *plugins) running() []*deviceplugin.Plugin { return slices.Concat(p.all, p.mig.plugins()) }

// statuses returns the states of all plugins by their resources.
func (p *plugins) statuses() map[string]deviceplugin.Status {
	statuses := map[string]deviceplugin.Status{}
	for _, plugin := range p.running() {
		statuses[plugin.Resource()] = plugin.Status()
	}
	return statuses
}

// namesOf returns the names of all resources, and by kind the names of those that are GPUs and
// shares of them; empty if there are none.
func namesOf(served []resource.Spec) (ofGPUs map[resource.Kind]string, all []string) {
	ofGPUs = map[resource.Kind]string{}
	for i := range served {
		all = append(all, served[i].Name)
		ofGPUs[served[i].Kind] = served[i].Name
	}
	return ofGPUs, all
}

// config returns what the plugins of all kinds have in common.
func (p *plugins) config(spec *resource.Spec, opts *options) deviceplugin.Config {
	config := deviceplugin.Config{
		Resource: spec.Name, Tracker: p.tracker, Allocated: p.notifyAllocated,
		Dir: filepath.Join(opts.kubeletDirectory, pluginFolder), Clock: p.clock,
	}
	config.EnvVar = spec.Environment
	if spec.Kind.OfGPUs() {
		config.CDIKind = p.injection.kind
	}
	return config
}

// add adds the plugin of a resource.
func (p *plugins) add(spec *resource.Spec, ofGPUs map[resource.Kind]string, opts *options) error {
	config := p.config(spec, opts)
	switch spec.Kind {
	case resource.GPUs:
		config.Pool = p.gpus
		config.Counterpart, config.Usage = ofGPUs[resource.Shares], p.usage
	case resource.Shares:
		config.Pool = p.gpus
		config.Counterpart, config.Usage = ofGPUs[resource.GPUs], p.usage
		config.Sharing = &deviceplugin.Sharing{MPS: p.mps.clients, LimitsMemory: p.injection.limitsMemory}
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

// run runs the plugins until ctx ends.
func (p *plugins) run(ctx context.Context, gpus *monitor.Monitor, restored <-chan struct{}) error {
	var group wait.Group
	group.StartWithContext(ctx, p.pods.Run)
	p.await(ctx, restored, p.pods.Synced())
	p.mps.start(ctx, &group)
	p.holdDevices(ctx)
	for _, plugin := range p.all {
		group.StartWithContext(ctx, plugin.Run)
	}
	group.StartWithContext(ctx, p.correctAfterAllocations)
	group.Start(func() { p.updateDevices(ctx, &group, gpus) })
	group.Start(func() { p.use.run(ctx, gpus) })
	go p.injection.run(ctx, gpus) // not in the group, since it may hang in the driver
	group.Wait()
	var err error
	if p.cleanUp {
		err = p.injection.remove()
	}
	return errors.Join(err, p.kubelet.Close())
}

// restoreTimeout bounds how long the plugins wait for the API server to return the GPUs'
// faults and the Pods. Containers must get devices without it, too.
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
			klog.FromContext(ctx).Info("The API server does not answer: the GPUs' previous faults and the scheduler's choices are not known yet")
			return
		}
	}
}

// holdTimeout bounds how long to wait for the kubelet to list the devices in use.
const holdTimeout = 2 * time.Second

// holdDevices keeps absent devices that containers still have in the plugins' lists. If the
// kubelet is not running yet, refresh does so later.
func (p *plugins) holdDevices(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, holdTimeout)
	defer cancel()
	p.refresh(ctx)
}

// updateDevices keeps the pools up to date with the GPUs, their slices and their health. Plugins
// of slices run in the group.
func (p *plugins) updateDevices(ctx context.Context, group *wait.Group, gpus *monitor.Monitor) {
	for {
		changed, described := gpus.Changed(), p.injection.changed()
		snapshot := gpus.Snapshot()
		if snapshot.Known() && p.injection.started() {
			if err := p.gpus.Set(p.devices(snapshot)); err != nil {
				klog.FromContext(ctx).Error(err, "The GPUs can't be offered to the kubelet")
			}
			p.mig.update(ctx, group, snapshot)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-described:
		case <-p.mig.wake():
		}
	}
}

// devices returns the GPUs as the device plugins offer them, with the numbers of NVLink
// connections between them. One that containers can't get counts as unhealthy; one in MIG
// mode is no GPU that a container can use as a whole.
func (p *plugins) devices(snapshot *gpu.Snapshot) (devices []deviceplugin.Device, links [][]int) {
	var whole []int
	for i := range snapshot.Devices {
		if !snapshot.Devices[i].MIG {
			whole = append(whole, i)
		}
	}
	for _, i := range whole {
		device := &snapshot.Devices[i]
		devices = append(devices, deviceplugin.Device{
			ID: device.UUID, Healthy: device.Healthy() && p.injection.available(device.UUID), MemoryMiB: int64(device.MemoryBytes >> 20),
			NVLinkGroup: device.NVLinkGroup, NUMANode: device.NUMANode,
		})
	}
	if snapshot.NVLinks == nil {
		return devices, nil
	}
	for _, i := range whole {
		row := make([]int, len(whole))
		for place, j := range whole {
			row[place] = snapshot.NVLinks[i][j]
		}
		links = append(links, row)
	}
	return devices, links
}

func (p *plugins) notifyAllocated() {
	select {
	case p.allocated <- struct{}{}:
	default: // a notification is pending already
	}
}

// listDelay is how long after an allocation the kubelet takes to list it.
const listDelay = 500 * time.Millisecond

// correctAfterAllocations refreshes soon after each allocation; the periodic refresh follows
// later.
func (p *plugins) correctAfterAllocations(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.allocated:
		}
		select {
		case <-ctx.Done():
			return
		case <-p.clock.After(listDelay):
		}
		p.refresh(ctx)
	}
}

// refreshEvery is how often refresh runs in any case: the kubelet answers from memory, and
// metrics must not show for long a container that no longer has a GPU.
const refreshEvery = 5 * time.Second

// refresh lists the kubelet's allocations, for the metrics, the device plugins and the Pods'
// annotations.
func (p *plugins) refresh(ctx context.Context) {
	asked := p.clock.Now()
	allocations, err := p.holders.Refresh(ctx)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The kubelet does not list the devices in use", "err", err)
		p.shares.forget()
		return
	}
	p.use.settle(ctx)
	for _, plugin := range p.all {
		plugin.Pool().Hold(share.GPUs(podresources.DeviceIDs(allocations, plugin.Resource()))...)
	}
	p.mig.observe(allocations)
	p.usage.Observe(asked, allocations)
	p.tracker.Observe(allocations)
	if _, err := p.corrector.Correct(ctx, allocations, p.shares.observe(ctx, allocations)); err != nil {
		klog.FromContext(ctx).Error(err, "Correcting the Pods' annotations failed; will retry")
	}
}

// ready returns an error if a plugin is not registered with the kubelet, or has nothing to offer or
// would refuse what the kubelet asks it for, although there are GPUs.
func (p *plugins) ready() error {
	gives := false
	if err := p.injection.ready(); err != nil {
		return err
	}
	for _, plugin := range p.running() {
		status := plugin.Status()
		// A resource without devices is not registered: a kubelet that receives an empty
		// list forgets its allocations.
		has := len(plugin.Pool().Devices()) > 0
		gives = gives || has && plugin.Pool() == p.gpus
		if !status.Registered && has {
			return fmt.Errorf("the device plugin of %s is not registered with the kubelet: %w", plugin.Resource(),
				cmp.Or(status.LastError, errNotRegistered))
		}
	}
	if gives {
		return p.usage.Known()
	}
	return nil
}

var errNotRegistered = errors.New("the kubelet has not been reached yet")
