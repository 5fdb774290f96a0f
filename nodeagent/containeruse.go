// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io/fs"
	"os"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/attribution"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/nodeagent/metrics"
)

// procDir is where Linux describes processes.
const procDir = "/proc"

// containerUse finds out what containers use of GPUs.
type containerUse struct {
	// which is the value of --process-metrics.
	which   string
	holders func(uuid string) []metrics.Holder
	pods    func() []*corev1.Pod
	proc    fs.FS
	// seesNode reports whether the node's processes are in our PID namespace.
	seesNode func(context.Context) (bool, error)
	// visible is true once they have been found to be there; settled once that is known.
	visible, settled atomic.Bool
	current          atomic.Pointer[map[string]*attribution.Usage]
}

var _ metrics.Containers = &containerUse{}

func newContainerUse(which, kubeletSocket string, holders *metrics.Holders, pods func() []*corev1.Pod) *containerUse {
	return &containerUse{
		which: which, holders: holders.Of, pods: pods, proc: os.DirFS(procDir),
		seesNode: func(ctx context.Context) (bool, error) { return podresources.SeesKubelet(ctx, kubeletSocket) },
	}
}

// settle finds out, once the kubelet answers, whether the node's processes can be seen. If not,
// a driver would report none, and containers would seem to use nothing.
func (u *containerUse) settle(ctx context.Context) {
	if u.which == processesOff || u.settled.Load() {
		return
	}
	sees, err := u.seesNode(ctx)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("It is not known yet whether the node's processes can be seen", "err", err)
		return
	}
	u.visible.Store(sees)
	u.settled.Store(true)
	if !sees {
		klog.FromContext(ctx).Info("What containers use of shared GPUs is not measured: the agent does not see the node's processes; see --process-metrics and hostPID in docs/node-agent-reference.md")
	}
}

// wanted reports whether the processes on a GPU are to be read.
func (u *containerUse) wanted(uuid string) bool {
	if u.which == processesOff || !u.visible.Load() {
		return false
	}
	holders := u.holders(uuid)
	return len(holders) > 1 || len(holders) == 1 && (u.which == processesAll || holders[0].Percent < share.PerGPU)
}

// run takes over what each poll has read, until ctx ends.
func (u *containerUse) run(ctx context.Context, gpus *monitor.Monitor) {
	if u.which == processesOff {
		return
	}
	for {
		changed := gpus.Changed()
		u.observe(gpus.Snapshot())
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// observe finds the containers of all processes.
func (u *containerUse) observe(snapshot *gpu.Snapshot) {
	var containers *attribution.Containers
	usages := map[string]*attribution.Usage{}
	for i := range snapshot.Devices {
		sample := snapshot.Devices[i].Processes
		if sample == nil {
			continue
		}
		if containers == nil {
			containers = attribution.NewContainers(u.pods())
		}
		usages[snapshot.Devices[i].UUID] = attribution.Sum(sample, func(pid int) (attribution.Container, bool) {
			return containers.OfProcess(u.proc, pid)
		})
	}
	u.current.Store(&usages)
}

// Of implements metrics.Containers. Who holds the GPU is as current as it can be, so that a
// container that is gone is not shown until the next poll.
func (u *containerUse) Of(uuid string) []metrics.ContainerUse {
	current := u.current.Load()
	if current == nil || (*current)[uuid] == nil {
		return nil
	}
	var holders []attribution.Container
	known := map[attribution.Container]bool{}
	for _, holder := range u.holders(uuid) {
		container := attribution.Container{Namespace: holder.Namespace, Pod: holder.Pod, Name: holder.Container}
		if !known[container] { // it may hold the GPU by several resources
			holders = append(holders, container)
			known[container] = true
		}
	}
	uses, others := (*current)[uuid].Split(holders)
	shown := make([]metrics.ContainerUse, 0, len(uses)+1)
	for i, use := range uses {
		shown = append(shown, metrics.ContainerUse{
			Namespace: holders[i].Namespace, Pod: holders[i].Pod, Container: holders[i].Name, Processes: use.Processes, Values: use.Values,
		})
	}
	if others.Processes > 0 {
		shown = append(shown, metrics.ContainerUse{Container: metrics.Others, Processes: others.Processes, Values: others.Values})
	}
	return shown
}
