// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// The invariants of gangs.
const (
	// InvariantGangs says that of a gang no Pod has a node, or at least as many as must start together
	// have one or have succeeded, but for the time that Bindings take, and for the time that a
	// gang takes which has lost Pods or whose scheduler was killed.
	InvariantGangs = "no gang runs partly"
	// InvariantInfeasible says that what can never start holds nothing.
	InvariantInfeasible = "what does not fit holds nothing"
)

// gangs follows how many Pods of each gang have nodes.
type gangs struct {
	all map[types.NamespacedName]*gang
}

func newGangs() *gangs { return &gangs{all: map[types.NamespacedName]*gang{}} }

// gang is a gang of which some Pods were seen.
type gang struct {
	min int
	// holding are the Pods that have a node and are not being deleted, succeeded the names of those
	// that have ended well.
	holding   map[types.UID]bool
	succeeded map[string]bool
	window    *window
}

// window is a period in which some, but too few Pods of a gang had nodes.
type window struct {
	// since is when it began, in calm time and by the clock.
	since, sinceElapsed time.Duration
	// disturbed is true if the gang was whole before, or has lost Pods since, or anything was
	// injected meanwhile.
	disturbed bool
	most      int
}

func (g *gangs) take(w *world, s *step) {
	if s.pod != nil {
		g.follow(w, s)
	}
	if s.Fault != nil {
		for _, one := range g.all {
			if one.window != nil {
				one.window.disturbed = true
			}
		}
	}
	for key, one := range g.all {
		one.judge(w, key)
	}
}

func (g *gangs) follow(w *world, s *step) {
	name := s.pod.Labels[v1.LabelPodGroup]
	least, err := strconv.Atoi(s.pod.Labels[v1.LabelMinAvailable])
	if name == "" || err != nil || s.pod.Labels[LabelFuzzed] != "" || isGuarded(s.pod) {
		return // the Pods of an incomplete gang can't be evicted if a PodDisruptionBudget forbids it
	}
	key := types.NamespacedName{Namespace: s.pod.Namespace, Name: name}
	one := g.all[key]
	if one == nil {
		one = &gang{min: least, holding: map[types.UID]bool{}, succeeded: map[string]bool{}}
		g.all[key] = one
	}
	if len(one.holding) == 0 && len(one.succeeded) == 0 {
		one.min = least // a task of this name may have been deleted and created again
	}
	one.follow(w, s)
	if len(one.holding) == 0 && s.gone && w.noPodOf(key) {
		delete(g.all, key)
	}
}

// isWhole reports whether as many Pods of a gang have nodes, or have succeeded, as must start together, with one
// of them that is being evicted. A Pod without a gang is one.
func (w *world) isWhole(pod *corev1.Pod) bool {
	least, err := strconv.Atoi(pod.Labels[v1.LabelMinAvailable])
	if err != nil {
		return true
	}
	count := 0
	for _, other := range w.pods {
		isMember := other.Namespace == pod.Namespace && other.Labels[v1.LabelPodGroup] == pod.Labels[v1.LabelPodGroup]
		if isMember && (other.UID == pod.UID || other.Status.Phase == corev1.PodSucceeded || holds(other) && other.DeletionTimestamp == nil) {
			count++
		}
	}
	return count >= least
}

// noPodOf reports whether no Pod of a gang exists.
func (w *world) noPodOf(key types.NamespacedName) bool {
	for _, pod := range w.pods {
		if pod.Namespace == key.Namespace && pod.Labels[v1.LabelPodGroup] == key.Name {
			return false
		}
	}
	return true
}

func (g *gang) follow(w *world, s *step) {
	if s.podBefore == nil && !s.gone {
		delete(g.succeeded, s.pod.Name) // its work is done again
	}
	if !s.gone && holds(s.pod) && s.pod.DeletionTimestamp == nil {
		g.holding[s.pod.UID] = true
	} else {
		delete(g.holding, s.pod.UID)
	}
	if s.pod.Status.Phase == corev1.PodSucceeded {
		g.succeeded[s.pod.Name] = true
	}
	lost := s.gone || s.pod.DeletionTimestamp != nil || s.pod.Status.Phase == corev1.PodFailed
	g.update(w, lost)
}

func (g *gang) update(w *world, lost bool) {
	partial := len(g.holding) > 0 && len(g.holding)+len(g.succeeded) < g.min
	if !partial {
		g.window = nil
		return
	}
	if g.window == nil {
		g.window = &window{since: w.calm, sinceElapsed: w.elapsed, disturbed: lost || len(g.holding) > 1 || w.isDisturbed()}
	}
	g.window.disturbed = g.window.disturbed || lost
	g.window.most = max(g.window.most, len(g.holding))
}

// isDisturbed reports whether a fault is active, or ended just now.
func (w *world) isDisturbed() bool {
	return len(w.active) > 0 || w.everDisturbed && w.elapsed < w.disturbed+w.config.Settle
}

// judge reports a window that is too long, as soon as it is.
func (g *gang) judge(w *world, key types.NamespacedName) {
	if g.window == nil {
		return
	}
	limit, how := w.config.Bind, "while nothing disturbed it"
	if g.window.disturbed {
		limit, how = w.config.recover(), "after it was disturbed"
	}
	if lasted := w.calm - g.window.since; lasted > limit {
		w.report(InvariantGangs, key.String(), "at most %d of the %d Pods that must start together had nodes for %v of calm (%v in all) %s; the limit is %v",
			g.window.most, g.min, lasted.Round(time.Millisecond), (w.elapsed - g.window.sinceElapsed).Round(time.Millisecond), how, limit)
	}
}

// infeasible checks that what can never start holds nothing.
type infeasible struct{}

func (*infeasible) take(w *world, s *step) {
	if s.pod != nil && !s.gone && s.pod.Labels[LabelInfeasible] != "" && s.pod.Spec.NodeName != "" {
		w.report(InvariantInfeasible, nameOf(s.pod), "the Pod can never run, and has got node %s", s.pod.Spec.NodeName)
	}
}
