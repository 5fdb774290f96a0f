// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// ledger tracks which Pod holds which GPU and how many of each gang are bound, in the
// API server's order of events. It records violations as problems: a GPU that is
// allocated twice or does not exist, and anything that an infeasible gang holds.
type ledger struct {
	mu sync.Mutex
	// nodes maps GPUs to the names of their nodes.
	nodes map[string]string
	// holders maps GPUs to the Pods that hold them, and how much of them in percent.
	holders map[string]map[types.UID]int
	pods    map[types.UID]*corev1.Pod
	// boundAt is when the ledger observed that a Pod was bound.
	boundAt map[types.UID]time.Time
	gangs   map[string]*record
	// binds counts the binds of Pods, bindsAndEnds also their ends, and kills are the
	// times at which the scheduler was killed.
	binds, bindsAndEnds int
	kills               []time.Time
	// byHand are the names of Pods that the test itself binds.
	byHand   map[string]bool
	problems []string
}

func newLedger() *ledger {
	return &ledger{
		nodes: map[string]string{}, holders: map[string]map[types.UID]int{}, pods: map[types.UID]*corev1.Pod{}, boundAt: map[types.UID]time.Time{},
		gangs: map[string]*record{}, byHand: map[string]bool{},
	}
}

// isHolding reports whether a Pod holds what it asked for: from its bind until it
// has ended or is gone.
func isHolding(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// node records a Node. Its GPUs stay known after its deletion: its Pods hold them until
// they are gone, too.
func (l *ledger) node(node *corev1.Node) {
	list, err := inventory.Parse(node.Annotations[inventory.Annotation])
	if err != nil {
		return // has no agent
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range list.GPUs {
		l.nodes[list.GPUs[i].UUID] = node.Name
	}
}

// pod records a watch event of a Pod.
func (l *ledger) pod(event watch.EventType, pod *corev1.Pod, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.pods[pod.UID]
	if event == watch.Deleted {
		delete(l.pods, pod.UID)
	} else {
		l.pods[pod.UID] = pod
	}
	held := before != nil && isHolding(before)
	holds := event != watch.Deleted && isHolding(pod)
	switch {
	case holds && !held:
		l.binds++
		l.bindsAndEnds++
		l.boundAt[pod.UID] = now
		l.take(pod)
	case held && !holds:
		l.bindsAndEnds++
		l.release(pod)
	case held && before.Annotations[inventory.AssignmentAnnotation] != pod.Annotations[inventory.AssignmentAnnotation]:
		l.problem("Pod %s: its GPUs have changed since it was bound", pod.Name)
		l.release(pod)
		l.take(pod)
	}
	if name := pod.Labels["gang"]; name != "" {
		l.follow(name, event, before, pod, now)
	}
}

func (l *ledger) take(pod *corev1.Pod) {
	if pod.Labels[infeasibleLabel] != "" {
		l.problem("Pod %s: is infeasible and got node %s", pod.Name, pod.Spec.NodeName)
	}
	if pool := pod.Labels[poolLabel]; pool != "" && !strings.Contains(pod.Spec.NodeName, "-"+pool+"-") {
		l.problem("Pod %s: is of the scheduler of pool %s and got node %s", pod.Name, pool, pod.Spec.NodeName)
	}
	whole, percent := wanted(pod, v1.ResourceGPU), wanted(pod, v1.ResourceGPUPercent)
	if whole == 0 && percent == 0 || l.byHand[pod.Name] {
		return
	}
	cards, err := cardsOf(pod)
	if err != nil {
		l.problem("Pod %s: was bound without GPUs: %v", pod.Name, err)
		return
	}
	if want := max(whole, 1); len(cards) != want {
		l.problem("Pod %s: got the GPUs %v, wants %d", pod.Name, cards, want)
	}
	for _, card := range cards {
		if node := l.nodes[card]; node != pod.Spec.NodeName {
			l.problem("Pod %s: is on node %s and got GPU %s of node %q", pod.Name, pod.Spec.NodeName, card, node)
		}
		if l.holders[card] == nil {
			l.holders[card] = map[types.UID]int{}
		}
		l.holders[card][pod.UID] = 100
		if whole == 0 {
			l.holders[card][pod.UID] = percent
		}
		l.checkCard(card)
	}
}

func (l *ledger) checkCard(card string) {
	sum := 0
	var names []string
	for uid, percent := range l.holders[card] {
		sum += percent
		names = append(names, fmt.Sprintf("%s (%d %%, bound to %s at %s)", l.pods[uid].Name, percent, l.pods[uid].Spec.NodeName, l.boundAt[uid].Format(clockFormat)))
	}
	if sum > 100 {
		slices.Sort(names)
		l.problem("GPU %s is given twice: %v; the scheduler was killed at %v", card, names, l.killTimes())
	}
}

// clockFormat shows the order of events.
const clockFormat = "15:04:05.000"

func (l *ledger) killTimes() []string {
	times := make([]string, len(l.kills))
	for i, kill := range l.kills {
		times[i] = kill.Format(clockFormat)
	}
	return times
}

func (l *ledger) release(pod *corev1.Pod) {
	for _, holders := range l.holders {
		delete(holders, pod.UID)
	}
}

// expectByHand announces that the test itself binds a Pod.
func (l *ledger) expectByHand(pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byHand[pod] = true
}

// problem records a violation. The caller holds the lock.
func (l *ledger) problem(format string, args ...any) {
	const most = 50
	if len(l.problems) < most {
		l.problems = append(l.problems, fmt.Sprintf(format, args...))
	}
}

// wanted returns how much of a resource a Pod requests.
func wanted(pod *corev1.Pod, name corev1.ResourceName) int {
	sum := 0
	for i := range pod.Spec.Containers {
		quantity := pod.Spec.Containers[i].Resources.Requests[name]
		sum += int(quantity.Value())
	}
	return sum
}

// cardsOf returns the GPUs that were allocated to a Pod.
func cardsOf(pod *corev1.Pod) ([]string, error) {
	assignment, err := inventory.ParseAssignment(pod.Annotations[inventory.AssignmentAnnotation])
	if err != nil {
		return nil, err
	}
	var cards []string
	for _, resources := range assignment.Containers {
		for _, ids := range resources {
			cards = append(cards, ids...)
		}
	}
	slices.Sort(cards)
	return cards, nil
}

// podsOf returns the Pods of a gang of a test, sorted by name.
func (l *ledger) podsOf(gang string) []*corev1.Pod {
	return l.podsWith(func(pod *corev1.Pod) bool { return pod.Labels["gang"] == gang })
}

func (l *ledger) podsWith(is func(*corev1.Pod) bool) []*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	pods := slices.DeleteFunc(slices.Collect(maps.Values(l.pods)), func(pod *corev1.Pod) bool { return !is(pod) })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

// bound returns how many Pods have been bound so far.
func (l *ledger) bound() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.binds
}

// progress returns how many binds and ends of Pods there have been so far.
func (l *ledger) progress() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bindsAndEnds
}

// heldCards returns how many GPUs are held, fully or partly.
func (l *ledger) heldCards() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for _, holders := range l.holders {
		if len(holders) > 0 {
			count++
		}
	}
	return count
}

// check reports the problems.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, problem := range l.problems {
		t.Error(problem)
	}
}

// minimum returns how many Pods of a Pod's gang start together.
func minimum(pod *corev1.Pod) int {
	number, err := strconv.Atoi(pod.Labels[v1.LabelMinAvailable])
	if err != nil {
		return 1
	}
	return number
}

// stays reports whether a Pod holds what it requested and is not terminating.
func stays(pod *corev1.Pod) bool { return isHolding(pod) && pod.DeletionTimestamp == nil }
