// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func inNamespace(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Namespace = name }
}

// explained makes a Pod say why it has no place.
func explained(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "too few free GPUs"}}
}

func TestNamespacesTakeTurnsWithTheirNewcomers(t *testing.T) {
	t.Parallel()
	f, turns := newFixture(t), map[string]float64{"a": 2000, "b": 1000, "c": 3000}
	f.turnstile.size = 1
	f.SetTurns(turns)
	for i := range 50 {
		p := pod(fmt.Sprintf("flood-%02d", i), inNamespace("flood"))
		turns[p.Name] = float64(i)
		f.Observe(p)
	}
	f.Observe(pod("a", inNamespace("team")))
	f.Observe(pod("b", inNamespace("team")))
	f.Observe(pod("c", inNamespace("other")))
	f.SetTurns(turns)
	var got []string
	for range 7 {
		due := f.Due(f.now(), 100)
		got = append(got, namesOf(due)...)
		f.Attempt(due[0].UID)
	}
	// Within a namespace, the turns decide.
	want := []string{"flood-00", "b", "c", "flood-01", "a", "flood-02", "flood-03"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// After a restart, none was tried by this scheduler. A campaign of test/chaos found Pods without an explanation
// behind thousands that had one.
func TestWhoIsExplainedIsNoNewcomer(t *testing.T) {
	t.Parallel()
	f, turns := newFixture(t), map[string]float64{"new": 1000}
	f.turnstile.size = 1
	f.SetTurns(turns)
	for i := range 50 {
		p := pod(fmt.Sprintf("known-%02d", i), explained)
		turns[p.Name] = float64(i)
		f.Observe(p)
	}
	f.Observe(pod("new"))
	f.SetTurns(turns)
	var got []string
	for range 4 {
		due := f.Due(f.now(), 100)
		got = append(got, namesOf(due)...)
		f.fail(due[0], time.Hour)
	}
	if diff := cmp.Diff([]string{"known-00", "new", "known-01", "known-02"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
