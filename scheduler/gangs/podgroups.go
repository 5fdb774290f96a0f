// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// GroupsState is what is known about the PodGroups of an API.
type GroupsState int

const (
	// GroupsUnknown means that it is not known yet which there are.
	GroupsUnknown GroupsState = iota
	// GroupsListed means that all of them have been observed.
	GroupsListed
	// GroupsAbsent means that the API server does not serve them.
	GroupsAbsent
	// GroupsForbidden means that the scheduler may not read them.
	GroupsForbidden
)

// errGroupUnknown holds Pods back until it is known whether their PodGroup exists.
var errGroupUnknown = errors.New("it is not known yet whether its PodGroup exists") //nolint:gochecknoglobals // a constant

// podGroups are the PodGroups, and the Pods that name them.
type podGroups struct {
	states  map[snapshot.GroupAPI]GroupsState
	known   map[snapshot.GroupRef]*podGroup
	members map[snapshot.GroupRef]map[types.UID]*Member
}

// podGroup is what is known about a PodGroup.
type podGroup struct {
	// labels are nil if the Pods are in no gang, or if err says what is wrong.
	labels *snapshot.GangLabels
	err    error
	// gone is true for an object that was deleted while its Pods run. It counts as long as
	// one of them does.
	gone bool
}

func newPodGroups() podGroups {
	return podGroups{
		states:  map[snapshot.GroupAPI]GroupsState{},
		known:   map[snapshot.GroupRef]*podGroup{},
		members: map[snapshot.GroupRef]map[types.UID]*Member{},
	}
}

// admit records a member that may name a PodGroup, and what that specifies.
func (p *podGroups) admit(m *Member) {
	ref := m.podGroup
	if ref.Name == "" {
		return
	}
	if p.members[ref] == nil {
		p.members[ref] = map[types.UID]*Member{}
	}
	p.members[ref][m.UID] = m
	m.labels, m.wrong, m.blocked = p.resolve(ref, m.Pod())
}

func (p *podGroups) drop(m *Member) {
	members := p.members[m.podGroup]
	delete(members, m.UID)
	if len(members) == 0 {
		delete(p.members, m.podGroup)
	}
}

// resolve returns what a PodGroup specifies about a Pod, as in Member.
func (p *podGroups) resolve(ref snapshot.GroupRef, pod *corev1.Pod) (labels *snapshot.GangLabels, wrong, blocked error) {
	unknown := &snapshot.GangLabels{Name: ref.Gang(), Min: 1}
	known, state := p.known[ref], p.states[ref.API]
	switch {
	case known != nil && known.err != nil:
		return unknown, nil, known.err
	case known != nil:
		return known.labels, nil, nil
	case state == GroupsUnknown:
		return unknown, nil, errGroupUnknown
	case state == GroupsAbsent && ref.API != snapshot.KubernetesGroups:
		labels, wrong = snapshot.GroupWithoutObject(pod, ref)
		return labels, wrong, nil
	default:
		return unknown, nil, missing(ref, state)
	}
}

// missing returns why a Pod waits for its PodGroup, and what would help.
func missing(ref snapshot.GroupRef, state GroupsState) error {
	waits := fmt.Sprintf("waits for PodGroup %s (podgroups.%s)", ref.Name, ref.API)
	switch {
	case state == GroupsAbsent:
		return errors.New(waits + ", which the API server does not serve: enable its feature gate GenericWorkload and a version of the API")
	case state == GroupsForbidden:
		return errors.New(waits + ", which gpu-scheduler may not read: its ClusterRole needs get, list and watch for them")
	case ref.API == snapshot.VolcanoGroups:
		return errors.New(waits + ", which does not exist; Volcano's controllers create those of its Jobs")
	default:
		return errors.New(waits + ", which does not exist")
	}
}

// running reports whether any Pod that names a PodGroup has a node.
func (p *podGroups) running(ref snapshot.GroupRef) bool {
	for _, m := range p.members[ref] {
		if m.bound() {
			return true
		}
	}
	return false
}

// SetGroups records what is known about the PodGroups of an API.
func (r *Registry) SetGroups(api snapshot.GroupAPI, state GroupsState) Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	actions := Actions{}
	if r.podGroups.states[api] == state {
		return actions
	}
	r.podGroups.states[api] = state
	for ref := range maps.Clone(r.podGroups.members) {
		if ref.API == api && r.podGroups.known[ref] == nil {
			actions = actions.and(r.reconsider(ref))
		}
	}
	return actions
}

// ObserveGroup records a PodGroup that was added or has changed: the labels that it stands
// for, nil if its Pods are in no gang, or what is wrong with it.
func (r *Registry) ObserveGroup(ref snapshot.GroupRef, labels *snapshot.GangLabels, err error) Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.podGroups.known[ref]
	r.podGroups.known[ref] = &podGroup{labels: labels, err: err}
	if before != nil && equality.Semantic.DeepEqual(before.labels, labels) && fmt.Sprint(before.err) == fmt.Sprint(err) {
		return Actions{}
	}
	return r.reconsider(ref)
}

// ForgetGroup records that a PodGroup was deleted. A gang that runs stays one.
func (r *Registry) ForgetGroup(ref snapshot.GroupRef) Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.podGroups.known[ref]
	if known == nil {
		return Actions{}
	}
	known.gone = true
	return r.dropGone(ref)
}

// dropGone forgets a PodGroup that was deleted once no Pod of it has a node.
func (r *Registry) dropGone(ref snapshot.GroupRef) Actions {
	if known := r.podGroups.known[ref]; known == nil || !known.gone || r.podGroups.running(ref) {
		return Actions{}
	}
	delete(r.podGroups.known, ref)
	return r.reconsider(ref)
}

// reconsider applies what is now known of a PodGroup to the Pods that name it.
func (r *Registry) reconsider(ref snapshot.GroupRef) Actions {
	actions, staying := Actions{}, map[*Group]bool{}
	members := slices.SortedFunc(maps.Values(r.podGroups.members[ref]), func(a, b *Member) int {
		return cmp.Or(a.Pod().CreationTimestamp.Compare(b.Pod().CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	for _, m := range members {
		labels, wrong, blocked := r.podGroups.resolve(ref, m.Pod())
		if (labels == nil) != m.group.Alone {
			actions = actions.and(r.regroup(m))
			continue
		}
		m.misplaced = false
		m.labels, m.wrong, m.blocked = m.keepLowerMin(labels, blocked), wrong, blocked
		staying[m.group] = true
	}
	for g := range staying {
		g.merged, g.wrong, g.reconsidered = nil, nil, true
		r.touch(g)
		r.clearFailures(g)
		actions = actions.and(r.activateLeader(g))
	}
	return actions
}

// keepLowerMin returns the labels of a member whose PodGroup has changed. A higher minimum
// does not count for a Pod that runs: its gang would be incomplete, and be evicted.
func (m *Member) keepLowerMin(labels *snapshot.GangLabels, blocked error) *snapshot.GangLabels {
	if labels == nil || m.labels == nil || !m.bound() || m.blocked != nil || blocked != nil {
		return labels
	}
	kept := *labels
	kept.Min = min(kept.Min, m.labels.Min)
	return &kept
}

// regroup moves a Pod into the group that its PodGroup now specifies. A Pod that is being
// bound is moved later: its Binding may be on its way, so its seat must not be released.
func (r *Registry) regroup(m *Member) Actions {
	if m.binding() {
		m.misplaced = true
		return Actions{}
	}
	actions := r.forget(m)
	if m.bound() { // it stays where it is
		actions.Release = slices.DeleteFunc(actions.Release, func(uid types.UID) bool { return uid == m.UID })
	}
	next := newMember(m.Pod(), m.claimed, m.ours)
	next.terminating = m.terminating
	return actions.and(r.admit(next))
}

// settle applies to a Pod that is no longer being bound what has changed meanwhile: its
// PodGroup, or its own needs. These don't matter any more once it has its node.
func (r *Registry) settle(m *Member) Actions {
	switch {
	case m.binding() || r.members[m.UID] != m:
		return Actions{}
	case m.outdated && !m.bound():
		return r.renew(m, m.Pod())
	case m.misplaced:
		return r.reconsider(m.podGroup)
	default:
		return Actions{}
	}
}

// binding reports whether a Pod has passed the barrier and is not bound yet.
func (m *Member) binding() bool {
	return m.seat != nil && (m.group.plan == nil || m.group.plan.number != m.seat.Plan)
}
