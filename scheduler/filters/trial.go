// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"falldio.github.io/gpu-controller/scheduler/config"
)

// Runner runs the filter plugins of a profile: kube-scheduler's framework.
type Runner interface {
	RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
	RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status
	RunPreFilterExtensionAddPod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, add fwk.PodInfo, node fwk.NodeInfo) *fwk.Status
	RunPreFilterExtensionRemovePod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, remove fwk.PodInfo, node fwk.NodeInfo) *fwk.Status
	MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister
}

// trialKey marks the cycle states of trials: our own plugins have no part in them.
const trialKey fwk.StateKey = "falldio.com/trial"

type trialMark struct{}

func (trialMark) Clone() fwk.StateData { return trialMark{} }

// InTrial reports whether a plugin is being asked in a trial.
func InTrial(state fwk.CycleState) bool {
	_, err := state.Read(trialKey)
	return err == nil
}

// Trial is the scheduler's snapshot with Pods added and removed. It is for use within one
// scheduling cycle.
type Trial struct {
	// HasAllocation reports whether devices are allocated to any resource claim of a Pod; nil if
	// that is not known.
	HasAllocation func(*corev1.Pod) bool

	ctx     context.Context //nolint:containedctx // that of the cycle
	runner  Runner
	node    func(name string) fwk.NodeInfo
	classes map[string]*candidate
	// changes are the Pods added and removed, in order; done is how many of them the copies
	// of the nodes and the classes' states show.
	changes []change
	nodes   map[string]*trialNode
	// version counts the changes, those taken back included.
	version uint64
}

// change is a Pod that was added to a node, or removed from it.
type change struct {
	info    fwk.PodInfo
	node    string
	removed bool
}

// trialNode is a node with changes.
type trialNode struct {
	changes int
	// copy has been made once the node was looked at with its changes; nil before.
	copy fwk.NodeInfo
}

// candidate is a class with the results of PreFilter for it.
type candidate struct {
	pod   *corev1.Pod
	state fwk.CycleState
	// only are the nodes to which PreFilter plugins confine the class; nil for all.
	only sets.Set[string]
	// refusal is set if PreFilter plugins refused the class, and everywhere if they did so on
	// the snapshot as it is.
	refusal, everywhere *Refusal
	// spread is true if the Pods have to be spread; version is the trial's for which the
	// results hold then.
	spread  bool
	version uint64
}

// NewTrial returns a Trial of a snapshot's nodes, which node looks up; it returns nil for
// a node that the snapshot does not have.
func NewTrial(ctx context.Context, runner Runner, node func(name string) fwk.NodeInfo) *Trial {
	return &Trial{ctx: ctx, runner: runner, node: node, classes: map[string]*candidate{}, nodes: map[string]*trialNode{}}
}

// Check returns why a Pod of a class can't go to a node now; nil if it can.
func (t *Trial) Check(class Class, pod *corev1.Pod, node string) *Refusal {
	c := t.candidate(class, pod)
	if c.spread && c.version != t.version {
		t.preFilter(c, true)
	}
	info := t.at(node)
	switch {
	case c.refusal != nil:
		return c.refusal
	case info == nil:
		return &Refusal{Reason: "the node is gone", Final: true}
	case c.only != nil && !c.only.Has(node):
		return &Refusal{Reason: "node(s) that the Pod's volumes or claims rule out", Final: true}
	}
	if status := t.runner.RunFilterPlugins(t.ctx, c.state, c.pod, info); !status.IsSuccess() && !t.mayRelease(c.pod, status) {
		return refusalOf(status)
	}
	if c.state.GetSkipFilterPlugins().Has(names.InterPodAffinity) && t.keptAway(pod, info.Node()) {
		return &Refusal{Plugin: names.InterPodAffinity, Reason: "node(s) didn't satisfy existing pods anti-affinity rules"}
	}
	return nil
}

// mayRelease reports whether a refusal has to be heard in the scheduling cycle of the Pod:
// DynamicResources, or GPUClaims in its place, then releases a claim that keeps the Pod from the
// node.
func (t *Trial) mayRelease(pod *corev1.Pod, status *fwk.Status) bool {
	ofClaims := status.Plugin() == names.DynamicResources || status.Plugin() == config.ClaimsPlugin
	return ofClaims && status.IsRejected() && (t.HasAllocation == nil || t.HasAllocation(pod))
}

// keptAway reports whether a Pod that was added keeps another off a node. InterPodAffinity
// says so itself, unless its PreFilter found nothing that concerns the Pod: what is added
// later does not bring it back.
func (t *Trial) keptAway(pod *corev1.Pod, node *corev1.Node) bool {
	for _, c := range t.changes {
		if c.removed {
			continue
		}
		terms := c.info.GetRequiredAntiAffinityTerms()
		for i := range terms {
			if terms[i].Matches(pod, nil) && t.together(c.node, node, terms[i].TopologyKey) {
				return true
			}
		}
	}
	return false
}

// together reports whether two nodes are in the same domain of a topology.
func (t *Trial) together(name string, node *corev1.Node, key string) bool {
	other := t.node(name)
	if other == nil {
		return false
	}
	value, labelled := node.Labels[key]
	return labelled && other.Node().Labels[key] == value
}

// Add adds a Pod to a node.
func (t *Trial) Add(pod *corev1.Pod, node string) error {
	placed := *pod
	placed.Spec.NodeName = node
	info, err := framework.NewPodInfo(&placed)
	if err != nil {
		return fmt.Errorf("affinity of Pod %s: %w", klog.KObj(pod), err)
	}
	return t.apply(change{info: info, node: node})
}

// Remove removes a Pod from a node. A Pod that is not there is no error.
func (t *Trial) Remove(pod *corev1.Pod, node string) error {
	base := t.node(node)
	if base == nil {
		return nil
	}
	for _, info := range base.GetPods() {
		if info.GetPod().UID == pod.UID {
			return t.apply(change{info: info, node: node, removed: true})
		}
	}
	return nil
}

// Undo takes back the last change.
func (t *Trial) Undo() error {
	last := t.changes[len(t.changes)-1]
	t.changes = t.changes[:len(t.changes)-1]
	t.version++
	n := t.nodes[last.node]
	n.changes--
	inverse := last
	inverse.removed = !last.removed
	if n.copy != nil {
		if err := changeNode(t.ctx, n.copy, inverse); err != nil {
			return err
		}
	}
	return t.changeStates(inverse)
}

func (t *Trial) apply(c change) error {
	t.changes = append(t.changes, c)
	t.version++
	n := t.nodes[c.node]
	if n == nil {
		n = &trialNode{}
		t.nodes[c.node] = n
	}
	n.changes++
	if n.copy != nil {
		if err := changeNode(t.ctx, n.copy, c); err != nil {
			return err
		}
	}
	return t.changeStates(c)
}

// at returns a node with its changes. The node is only copied if there are any: most nodes
// of a gang get one member, and are not looked at again.
func (t *Trial) at(name string) fwk.NodeInfo {
	base := t.node(name)
	n := t.nodes[name]
	if n == nil || n.changes == 0 && n.copy == nil || base == nil {
		return base
	}
	if n.copy == nil {
		n.copy = base.Snapshot()
		for _, c := range t.changes {
			if c.node == name {
				if err := changeNode(t.ctx, n.copy, c); err != nil {
					klog.FromContext(t.ctx).Error(err, "A node can't be changed in a trial", "node", name)
				}
			}
		}
	}
	return n.copy
}

func changeNode(ctx context.Context, node fwk.NodeInfo, c change) error {
	if c.removed {
		return node.RemovePod(klog.FromContext(ctx), c.info.GetPod())
	}
	node.AddPodInfo(c.info)
	return nil
}

// changeStates brings the results of PreFilter up to date.
func (t *Trial) changeStates(c change) error {
	for _, one := range t.classes {
		if err := t.changeState(one, c); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trial) changeState(one *candidate, c change) error {
	if one.refusal != nil || one.spread { // PreFilter runs again for the latter
		return nil
	}
	base := t.node(c.node)
	if base == nil {
		return nil
	}
	run := t.runner.RunPreFilterExtensionAddPod
	if c.removed {
		run = t.runner.RunPreFilterExtensionRemovePod
	}
	return run(t.ctx, one.state, one.pod, c.info, base).AsError()
}

// candidate returns a class with the results of PreFilter for it.
func (t *Trial) candidate(class Class, pod *corev1.Pod) *candidate {
	if known := t.classes[class.Key]; known != nil {
		return known
	}
	c := &candidate{pod: pod}
	t.classes[class.Key] = c
	t.preFilter(c, false)
	c.everywhere = c.refusal
	if c.spread = c.refusal == nil && !c.state.GetSkipFilterPlugins().Has(names.PodTopologySpread); c.spread {
		if len(t.changes) > 0 {
			t.preFilter(c, true)
		}
		return c
	}
	for _, done := range t.changes {
		if err := t.changeState(c, done); err != nil {
			c.refusal = &Refusal{Reason: err.Error(), Failed: true}
			break
		}
	}
	return c
}

// preFilter runs the PreFilter plugins for a class: on the snapshot, or, if changed is set,
// on the snapshot with the trial's changes. PodTopologySpread needs the latter: it follows
// only the two domains with the fewest Pods when Pods are added one by one.
func (t *Trial) preFilter(c *candidate, changed bool) {
	if changed {
		restore, err := t.showChanges()
		if err != nil {
			c.refusal = &Refusal{Reason: err.Error(), Failed: true}
			return
		}
		defer restore()
	}
	c.state, c.only, c.refusal, c.version = framework.NewCycleState(), nil, nil, t.version
	c.state.Write(trialKey, trialMark{})
	result, status, _ := t.runner.RunPreFilterPlugins(t.ctx, c.state, c.pod)
	switch {
	case !status.IsSuccess():
		c.refusal = refusalOf(status)
	case !result.AllNodes():
		c.only = result.NodeNames
	}
}

// showChanges makes the trial's changes in the snapshot itself, until restore is called.
func (t *Trial) showChanges() (restore func(), err error) {
	snapshot := t.runner.MutableSnapshotSharedLister()
	if err := snapshot.StartMutations(); err != nil {
		return nil, err
	}
	restore = func() {
		if err := snapshot.EndMutations(); err != nil {
			klog.FromContext(t.ctx).Error(err, "The snapshot could not be restored")
		}
	}
	for _, c := range t.changes {
		if c.removed {
			err = snapshot.RemovePod(klog.FromContext(t.ctx), c.info.GetPod(), c.node)
		} else {
			err = snapshot.AddPod(c.info, c.node)
		}
		if err != nil {
			restore()
			return nil, err
		}
	}
	return restore, nil
}

// RefusedEverywhere returns why no node takes Pods of a class; nil if there is no such
// reason.
func (t *Trial) RefusedEverywhere(class Class, pod *corev1.Pod) *Refusal {
	return t.candidate(class, pod).everywhere
}
