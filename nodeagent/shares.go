// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/answers"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/enforcement"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/mps"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/metrics"
	"falldio.github.io/gpu-controller/nodeagent/node/publish"
)

// shares states what limits containers to their shares of GPUs: in metrics, in Events, and for
// the Pods' annotations.
type shares struct {
	// resource is that of the shares, directory the kubelet's for device plugins.
	resource  string
	directory string
	pods      func() []*corev1.Pod
	daemon    *mps.Watcher
	clock     clock.Clock
	events    *publish.ShareEvents
	// current are the latest statements, by GPU.
	current atomic.Pointer[map[string][]enforcement.Statement]
	// unreadable is true while the kubelet's answers can't be read.
	unreadable atomic.Bool
}

var _ metrics.Shares = &shares{}

// newShares returns nil if the agent gives out no shares.
func newShares(resource string, opts *options, pods func() []*corev1.Pod, daemon *mps.Watcher, recorder record.EventRecorder, c clock.Clock) *shares {
	if resource == "" {
		return nil
	}
	return &shares{
		resource: resource, directory: filepath.Join(opts.kubeletDirectory, pluginFolder), pods: pods, daemon: daemon, clock: c,
		events: publish.NewShareEvents(recorder, c.Now(), opts.mps.directory() != ""),
	}
}

// observe takes over the kubelet's allocations, writes the Events that are due, and returns
// what the Pods' annotations should say.
func (s *shares) observe(ctx context.Context, allocations []podresources.Allocation) map[types.NamespacedName]map[string]string {
	if s == nil {
		return nil
	}
	pods := s.pods()
	statements := enforcement.Statements(s.resource, allocations, pods, s.answers(ctx, allocations))
	byGPU := map[string][]enforcement.Statement{}
	for i := range statements {
		byGPU[statements[i].GPU] = append(byGPU[statements[i].GPU], statements[i])
	}
	s.current.Store(&byGPU)
	s.events.Write(pods, statements)
	return enforcement.ByPod(statements)
}

// answers returns what the agent has answered for the containers with shares. It reads the
// kubelet's file only if there are any.
func (s *shares) answers(ctx context.Context, allocations []podresources.Allocation) map[answers.Key]answers.Answer {
	if len(podresources.DeviceIDs(allocations, s.resource)) == 0 {
		return nil
	}
	given, err := answers.Read(s.directory, s.resource)
	if before := s.unreadable.Swap(err != nil); err != nil && !before {
		klog.FromContext(ctx).Info("It is unknown what limits the shares of GPUs", "err", err)
	}
	return given
}

// forget forgets the statements, when the kubelet does not say who has which devices.
func (s *shares) forget() {
	if s != nil {
		s.current.Store(nil)
	}
}

// Of implements metrics.Shares.
func (s *shares) Of(uuid string) []metrics.Share {
	current := s.current.Load()
	if current == nil {
		return nil
	}
	status, now := s.daemon.Status(), s.clock.Now()
	var holders []metrics.Share
	for _, statement := range (*current)[uuid] {
		holders = append(holders, metrics.Share{
			Namespace: statement.Pod.Namespace, Pod: statement.Pod.Name, Container: statement.Container, Enforcement: statement.Now(status, now),
		})
	}
	return holders
}

// DaemonUp implements metrics.Shares.
func (s *shares) DaemonUp() (up, configured bool) {
	state := s.daemon.Status().State
	return state == mps.Running, state != mps.NotConfigured
}
