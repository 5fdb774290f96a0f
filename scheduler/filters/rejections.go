// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxHints is how many waiting gangs are considered for an event; if there are more, the
// event is taken to help one of them.
const maxHints = 16

// rejections are the gangs that wait because plugins refused nodes with room for them.
type rejections struct {
	mu sync.Mutex
	// hints are set once the scheduler runs.
	hints Hints
	// byPlugin has a Pod of each such gang, by plugin and gang.
	byPlugin map[string]map[string]*corev1.Pod
}

// set records which plugins refused nodes to a gang; none if it no longer waits for them.
func (r *rejections) set(group string, pod *corev1.Pod, plugins []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for plugin, pods := range r.byPlugin {
		if !slices.Contains(plugins, plugin) {
			delete(pods, group)
		}
	}
	for _, plugin := range plugins {
		if r.byPlugin == nil {
			r.byPlugin = map[string]map[string]*corev1.Pod{}
		}
		if r.byPlugin[plugin] == nil {
			r.byPlugin[plugin] = map[string]*corev1.Pod{}
		}
		r.byPlugin[plugin][group] = pod
	}
}

// sweep drops gangs that no longer exist.
func (r *rejections) sweep(exists func(group string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pods := range r.byPlugin {
		maps.DeleteFunc(pods, func(group string, _ *corev1.Pod) bool { return !exists(group) })
	}
}

// mayHelp reports whether a plugin says that a change of an object may make it accept a
// node for a gang that waits.
func (c *Consultant) mayHelp(kind fwk.EventResource, before, after any) bool {
	r := &c.rejections
	r.mu.Lock()
	defer r.mu.Unlock()
	considered := 0
	for plugin, pods := range r.byPlugin {
		for _, pod := range pods {
			if considered++; considered > maxHints || r.hints.MayHelp(c.Logger, plugin, pod, kind, before, after) {
				return true
			}
		}
	}
	return false
}

// NotSeen returns when a gang is to be tried again because something has changed that plugins which refused it look at,
// and that they may not have seen: during the attempt, or so short a time before it that their own caches did not show
// it. It is zero if nothing has. The rejections must have been set before: what changes later wakes the gang.
func (c *Consultant) NotSeen(plugins []string, began time.Time) (again time.Time) {
	settled := c.Memory.LastChange(plugins).Add(c.Lag)
	if len(plugins) == 0 || settled.Before(began) {
		return time.Time{}
	}
	return settled
}

// PodChanged is called when a Pod has got its node (before is nil), or was updated
// there. It reports whether that may help Pods that wait to be near it.
func (c *Consultant) PodChanged(before, after *corev1.Pod) (mayHelp bool) {
	var old any
	if before != nil {
		old = before
	}
	c.Memory.PodChanged(c.Clock.Now())
	return c.mayHelp(fwk.Pod, old, after)
}

// ObjectChanged is called when an object that a filter looks at was added, updated or
// deleted. It reports whether that may help Pods that wait.
func (c *Consultant) ObjectChanged(kind fwk.EventResource, before, after any) (mayHelp bool) {
	c.Memory.Changed(kind, c.Clock.Now())
	return c.mayHelp(kind, before, after)
}

// Changed is called when an object of a kind was added (before is nil), updated or deleted (after is nil).
type Changed func(kind fwk.EventResource, before, after any)

// Follow learns from the profiles' plugins for which events they would have a Pod
// queued again, and watches these objects. kube-scheduler watches them already, once its
// profiles are complete, so that no further watch is opened.
func (c *Consultant) Follow(ctx context.Context, informers informers.SharedInformerFactory, changed Changed) {
	hints := Hints{}
	for profile, runner := range c.runners {
		profiled, ok := runner.(interface {
			EnqueueExtensions() []fwk.EnqueueExtensions
		})
		if !ok {
			continue
		}
		added, err := HintsOf(ctx, profiled.EnqueueExtensions())
		if err != nil {
			c.Logger.Error(err, "What plugins wait for is not known", "profile", profile)
			continue
		}
		hints.Add(added)
	}
	for kind := range hints.Kinds() {
		if watched := informerOf(informers, kind); watched != nil {
			c.follow(kind, watched, changed)
			continue
		}
		c.Logger.V(2).Info("Objects that a plugin looks at are not watched: what it refuses is considered again each time", "kind", kind)
		hints.Ignore(kind)
	}
	c.rejections.mu.Lock()
	c.rejections.hints = hints
	c.rejections.mu.Unlock()
	c.Memory.Follow(hints)
}

func (c *Consultant) follow(kind fwk.EventResource, watched cache.SharedIndexInformer, changed Changed) {
	_, err := watched.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(kind, nil, object) },
		UpdateFunc: func(before, after any) { changed(kind, before, after) },
		DeleteFunc: func(object any) { changed(kind, object, nil) },
	}, cache.HandlerOptions{Logger: &c.Logger})
	if err != nil {
		c.Logger.Error(err, "Objects can't be watched", "kind", kind)
	}
}

// informerOf returns the informer of a kind of object that filters look at; nil if it is
// none of kube-scheduler's own.
func informerOf(factory informers.SharedInformerFactory, kind fwk.EventResource) cache.SharedIndexInformer {
	switch kind {
	case Namespace:
		return factory.Core().V1().Namespaces().Informer()
	case fwk.PersistentVolume:
		return factory.Core().V1().PersistentVolumes().Informer()
	case fwk.PersistentVolumeClaim:
		return factory.Core().V1().PersistentVolumeClaims().Informer()
	case fwk.StorageClass:
		return factory.Storage().V1().StorageClasses().Informer()
	case fwk.CSINode:
		return factory.Storage().V1().CSINodes().Informer()
	case fwk.CSIDriver:
		return factory.Storage().V1().CSIDrivers().Informer()
	case fwk.CSIStorageCapacity:
		return factory.Storage().V1().CSIStorageCapacities().Informer()
	case fwk.VolumeAttachment:
		return factory.Storage().V1().VolumeAttachments().Informer()
	case fwk.ResourceClaim:
		return factory.Resource().V1().ResourceClaims().Informer()
	case fwk.ResourceSlice:
		return factory.Resource().V1().ResourceSlices().Informer()
	case fwk.DeviceClass:
		return factory.Resource().V1().DeviceClasses().Informer()
	default:
		return nil
	}
}
