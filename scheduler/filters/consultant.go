// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Sources are where a Consultant knows the cluster from.
type Sources struct {
	Logger klog.Logger
	Clock  clock.PassiveClock
	// Cluster has the snapshot of this scheduling cycle.
	Cluster interface{ SnapshotSharedLister() fwk.SharedLister }
	Mirror  Mirror
	// Terminating reports whether a Pod is about to be deleted.
	Terminating func(types.UID) bool
	// HasAllocation reports whether devices are allocated to any resource claim of a Pod; nil if
	// that is not known.
	HasAllocation func(*corev1.Pod) bool
	// Lag is how long it may take until the plugins' caches show what an informer has delivered.
	Lag time.Duration
}

// Mirror is the cluster that is planned for.
type Mirror interface {
	// Version returns a number that changes whenever the cluster does.
	Version() uint64
	// Arriving returns the Pods with seats that the snapshot does not show.
	Arriving() []snapshot.Holder
}

// Consultant asks the filters of the profiles about the places of gangs, in scheduling cycles, and remembers what they
// refused. Only PodChanged, ObjectChanged, Sweep and Follow may be called at any time.
type Consultant struct {
	Sources
	// Memory is what nodes have refused.
	Memory *Memory
	// runners are the filters of the profiles, by scheduler name.
	runners map[string]Runner
	// rejections are the gangs that wait because filters refused them.
	rejections rejections

	// classes are those of the Pods that wait, and searches how long the filters may be asked.
	classes  classCache
	searches searches
	// failures are the requests that found no place in the cluster as it is, with what the filters refused, and last is
	// what they refused in the attempt of this cycle.
	failures failures
	last     lastRefusals
}

// NewConsultant returns a Consultant that knows no profiles.
func NewConsultant(sources Sources) *Consultant {
	return &Consultant{Sources: sources, Memory: NewMemory(), runners: map[string]Runner{}, classes: classCache{}}
}

// Serve adds the filters of a profile.
func (c *Consultant) Serve(profile string, runner Runner) { c.runners[profile] = runner }

// Begin is called when an attempt for a gang begins.
func (c *Consultant) Begin(now time.Time) {
	c.Memory.Settle(now.Add(-c.Lag))
	c.searches.begin()
}

// SearchEnded is called when places for a gang were searched.
func (c *Consultant) SearchEnded(request *gangs.Request, found bool, refused *Refusals) {
	c.searches.ended(groupOf(request), request.Count(), found || !refused.RanOutOfTime())
}

// Failed remembers that a request found no place in the cluster as it was when a number was read that changes whenever
// anything is freed.
func (c *Consultant) Failed(freed uint64, wanted Keys, refused *Refusals) {
	if refused.lasting() {
		c.failures.put(freed, wanted.After(refused.Any()), refused)
	}
}

// FoundNone records that the attempt of this cycle has found no place for a gang, of which this is a Pod, and what was
// refused.
func (c *Consultant) FoundNone(group string, pod *corev1.Pod, refused *Refusals) {
	c.last = lastRefusals{group, refused}
	c.rejections.set(group, pod, refused.Plugins())
}

// Last returns what was refused in the attempt of this cycle if it was for a gang; else nil.
func (c *Consultant) Last(group string) *Refusals { return c.last.of(group) }

// Placed records that a gang has got a place.
func (c *Consultant) Placed(group string) { c.rejections.set(group, nil, nil) }

// RefusedByAll records that plugins have refused a Pod on all nodes in its cycle. It returns what NotSeen does.
func (c *Consultant) RefusedByAll(m *gangs.Member, plugins []string) (again time.Time) {
	c.Distrust(m)
	now := c.Clock.Now()
	c.rejections.set(m.Group().Key, m.Pod(), plugins)
	return c.NotSeen(plugins, now)
}

// Distrust records that a node has refused a Pod whose place was not checked before.
func (c *Consultant) Distrust(m *gangs.Member) { c.Memory.Distrust(c.ClassOf(m)) }

// Sweep drops gangs that no longer exist.
func (c *Consultant) Sweep(exists func(group string) bool) { c.rejections.sweep(exists) }

// SweepClasses drops Pods that no longer exist.
func (c *Consultant) SweepClasses(exists func(types.UID) bool) { c.classes.sweep(exists) }

// Size is how much is kept for Pods that wait.
type Size struct{ Classes, Failures, Rejections int }

// Size returns how much is kept.
func (c *Consultant) Size() Size {
	size := Size{Classes: len(c.classes), Failures: len(c.failures.known)}
	c.rejections.mu.Lock()
	defer c.rejections.mu.Unlock()
	for _, pods := range c.rejections.byPlugin {
		size.Rejections += len(pods)
	}
	return size
}
