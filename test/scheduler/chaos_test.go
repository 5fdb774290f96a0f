// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// monkey disturbs nodes and kills schedulers. It repairs each node after a while.
type monkey struct {
	*suite
	random *rand.Rand
	nodes  []corev1.Node
	// kill ends a scheduler with SIGKILL.
	kill func()

	mu sync.Mutex
	// disturbed are the nodes that are not repaired yet, done counts the disturbances.
	disturbed map[string]bool
	done      map[string]int
	mending   sync.WaitGroup
}

func (s *suite) newMonkey(random *rand.Rand, kill func()) *monkey {
	s.Helper()
	nodes, err := s.kube.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return &monkey{suite: s, random: random, nodes: nodes.Items, kill: kill, disturbed: map[string]bool{}, done: map[string]int{}}
}

// run disturbs something every now and then until ctx ends, and returns when everything
// is repaired.
func (m *monkey) run(ctx context.Context, pauses time.Duration) {
	disturbances := []struct {
		name string
		do   func(context.Context, *corev1.Node) (mend func(context.Context) error, err error)
	}{
		{"drained", m.drain}, {"deleted", m.deleteIt}, {"back at once", m.reregister}, {"in another leaf", m.moveToAnotherLeaf},
		{"of another model", m.changeModel}, {"not ready", m.silence}, {"tainted", m.taint},
	}
	nextKill, bound := time.Now().Add(2*time.Second), 0
	for pause(ctx, time.Duration(m.random.Int64N(int64(2*pauses)))) {
		// Killing a scheduler that had no time to bind anything tests nothing.
		if now := m.ledger.bound(); time.Now().After(nextKill) && now > bound {
			nextKill, bound = time.Now().Add(time.Duration(2000+m.random.IntN(3000))*time.Millisecond), now
			m.kill()
			continue
		}
		node := m.pick()
		if node == nil {
			continue
		}
		disturbance := disturbances[m.random.IntN(len(disturbances))]
		mend, err := disturbance.do(ctx, node)
		m.count("nodes "+disturbance.name, err)
		after := time.Duration(1000+m.random.IntN(3000)) * time.Millisecond
		m.mending.Go(func() { m.mendAfter(ctx, node.Name, after, mend) })
	}
	m.mending.Wait()
}

func (m *monkey) mendAfter(ctx context.Context, node string, after time.Duration, mend func(context.Context) error) {
	pause(ctx, after)
	if mend != nil {
		if err := mend(context.WithoutCancel(ctx)); err != nil {
			m.Errorf("mending node %s: %v", node, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.disturbed, node)
}

func (m *monkey) count(what string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.Errorf("%s: %v", what, err)
	}
	m.done[what]++
}

// pick returns an undisturbed node; nil if too many are disturbed.
func (m *monkey) pick() *corev1.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := &m.nodes[m.random.IntN(len(m.nodes))]
	if m.disturbed[node.Name] || len(m.disturbed) > len(m.nodes)/8 {
		return nil
	}
	m.disturbed[node.Name] = true
	return node
}

func (m *monkey) patch(ctx context.Context, node, format string, args ...any) error {
	_, err := m.kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, fmt.Appendf(nil, format, args...), metav1.PatchOptions{})
	return err
}

// drain does what kubectl drain does.
func (m *monkey) drain(ctx context.Context, node *corev1.Node) (mend func(context.Context) error, err error) {
	mend = func(ctx context.Context) error { return m.patch(ctx, node.Name, `{"spec": {"unschedulable": null}}`) }
	if err := m.patch(ctx, node.Name, `{"spec": {"unschedulable": true}}`); err != nil {
		return mend, ignoreEnd(ctx, err)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, pod := range m.ledger.podsWith(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node.Name && isHolding(pod) }) {
		group.Go(func() error { return m.evict(groupCtx, pod) })
	}
	return mend, ignoreEnd(ctx, group.Wait())
}

// deleteIt deletes a node with its Pods, or leaves the Pods to the garbage collector.
func (m *monkey) deleteIt(ctx context.Context, node *corev1.Node) (mend func(context.Context) error, err error) {
	mend = func(ctx context.Context) error { return m.createAgain(ctx, node) }
	if err := m.kube.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil {
		return mend, ignoreEnd(ctx, err) // the node may be gone all the same
	}
	if m.random.IntN(2) == 0 {
		err = m.loseNow(ctx, node.Name)
	}
	return mend, ignoreEnd(ctx, err)
}

// reregister deletes a node and recreates it at once, with its Pods still running.
func (m *monkey) reregister(ctx context.Context, node *corev1.Node) (mend func(context.Context) error, err error) {
	mend = func(ctx context.Context) error { return m.createAgain(ctx, node) }
	if err := m.kube.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil {
		return mend, ignoreEnd(ctx, err) // the node may be gone all the same
	}
	return nil, m.createAgain(context.WithoutCancel(ctx), node)
}

func (m *monkey) createAgain(ctx context.Context, node *corev1.Node) error {
	again := node.DeepCopy()
	again.ResourceVersion, again.UID = "", ""
	again.Status.Conditions = nil
	again.Spec.Taints = nil
	_, err := m.kube.CoreV1().Nodes().Create(ctx, again, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// guard monitors the simulation until ctx ends: KWOK sometimes no longer simulates a node
// that it has seen before. Restarting KWOK helps.
func (m *monkey) guard(ctx context.Context) {
	const patience = 8 * time.Second
	since := map[string]time.Time{}
	for pause(ctx, 500*time.Millisecond) {
		for name, ready := range m.readiness(ctx) {
			if _, known := since[name]; ready || !known {
				since[name] = time.Now()
			}
			if ready || time.Since(since[name]) < patience {
				continue
			}
			if pid, err := m.kwokProcess(); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
				m.count("KWOKs killed", nil)
				clear(since)
				break
			}
		}
	}
}

// readiness returns for each node that should be ready whether it is.
func (m *monkey) readiness(ctx context.Context) map[string]bool {
	list, err := m.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	ready := map[string]bool{}
	for i := range list.Items {
		ready[list.Items[i].Name] = isReady(&list.Items[i])
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.disturbed {
		delete(ready, name)
	}
	return ready
}

// waitUntilMended waits until all nodes are repaired.
func (m *monkey) waitUntilMended() {
	m.Helper()
	m.eventually("all nodes are ready", func() (bool, string) {
		all := m.readiness(m.Context())
		var missing []string
		for i := range m.nodes {
			if !all[m.nodes[i].Name] {
				missing = append(missing, m.nodes[i].Name)
			}
		}
		return len(missing) == 0, fmt.Sprintf("%v are not", missing)
	})
}

func isReady(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

func (m *monkey) moveToAnotherLeaf(ctx context.Context, node *corev1.Node) (mend func(context.Context) error, err error) {
	leaf := func(name string) string { return fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, v1.LabelLeaf, name) }
	mend = func(ctx context.Context) error {
		return m.patch(ctx, node.Name, "%s", leaf(node.Labels[v1.LabelLeaf]))
	}
	other := &m.nodes[m.random.IntN(len(m.nodes))]
	return mend, ignoreEnd(ctx, m.patch(ctx, node.Name, "%s", leaf(other.Labels[v1.LabelLeaf])))
}

func (m *monkey) changeModel(ctx context.Context, node *corev1.Node) (mend func(context.Context) error, err error) {
	model := func(name string) string {
		return fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, v1.LabelGPUModel, name)
	}
	mend = func(ctx context.Context) error {
		return m.patch(ctx, node.Name, "%s", model(node.Labels[v1.LabelGPUModel]))
	}
	return mend, ignoreEnd(ctx, m.patch(ctx, node.Name, "%s", model("unknown")))
}

func (m *monkey) silence(ctx context.Context, node *corev1.Node) (mend func(context.Context) error, err error) {
	const notReady = `{"metadata": {"annotations": {"simulation.falldio.com/not-ready": %s}}}`
	mend = func(ctx context.Context) error { return m.patch(ctx, node.Name, notReady, "null") }
	return mend, ignoreEnd(ctx, m.patch(ctx, node.Name, notReady, `"true"`))
}

func (m *monkey) taint(ctx context.Context, node *corev1.Node) (mend func(context.Context) error, err error) {
	change := func(ctx context.Context, change func([]corev1.Taint) []corev1.Taint) error {
		got, err := m.kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got.Spec.Taints = change(got.Spec.Taints)
		_, err = m.kube.CoreV1().Nodes().Update(ctx, got, metav1.UpdateOptions{})
		return err
	}
	insistently := func(ctx context.Context, with func([]corev1.Taint) []corev1.Taint) error {
		for {
			err := change(ctx, with)
			if !apierrors.IsConflict(err) {
				return err
			}
		}
	}
	mend = func(ctx context.Context) error {
		return insistently(ctx, func(taints []corev1.Taint) []corev1.Taint {
			return slices.DeleteFunc(taints, func(taint corev1.Taint) bool { return taint.Key == tenantTaint })
		})
	}
	return mend, ignoreEnd(ctx, insistently(ctx, func(taints []corev1.Taint) []corev1.Taint {
		return append(taints, corev1.Taint{Key: tenantTaint, Value: "nobody", Effect: corev1.TaintEffectNoSchedule})
	}))
}

// ignoreEnd ignores errors that are caused by the end of ctx.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// String lists the disturbances.
func (m *monkey) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var texts []string
	for what, times := range m.done {
		texts = append(texts, fmt.Sprintf("%d %s", times, what))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
