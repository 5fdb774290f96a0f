// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// The first tasks wait for nodes whose jobs may never move. Moving one Pod makes room for the last one.
func TestTasksThatNoMoveCanHelpDontEndReschedulingForOthers(t *testing.T) {
	t.Parallel()
	for _, hopeless := range []int{3, 4, 11} {
		t.Run(fmt.Sprint(hopeless), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.options.Searches = NewSearches()
			pinned := func(n *corev1.Node) { n.Labels["pool"] = "p" }
			c.node("p1", 8, pinned)
			c.node("p2", 8, pinned)
			c.node("m1", 8)
			c.node("m2", 8)
			never := rescheduling(func(r *v1.Rescheduling) { r.Policy = v1.ReschedulingNever })
			never(c.run("x1", "5", "p1"))
			never(c.run("x2", "5", "p2"))
			c.run("a", "4", "m1")
			c.run("b", "4", "m2")
			for i := range hopeless {
				pods := 1 + i/4 // each asks for something else
				task := c.wait(fmt.Sprint("hopeless-", i), fmt.Sprint(4+i%4), pods)
				for _, pod := range task.Pods {
					pod.Spec.NodeSelector = map[string]string{"pool": "p"}
					pod.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
				}
			}
			c.wait("big", "8", 1)
			for call := range 4 {
				if plan, _ := Propose(&c.Objects, &c.options); plan != nil {
					if plan.Spec.For.Name != "big" {
						t.Errorf("the plan is for %s", plan.Spec.For.Name)
					}
					t.Logf("a plan after %d calls", call+1)
					return
				}
			}
			t.Error("no plan in four calls")
		})
	}
}

func TestATaskIsSearchedForAgainAfterMovesWereFoundForIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.options.Searches = NewSearches()
	c.node("m1", 8)
	c.node("m2", 8)
	c.run("a", "4", "m1")
	c.run("b", "4", "m2")
	c.wait("big", "8", 1)
	for call := range 3 {
		if plan, report := Propose(&c.Objects, &c.options); plan == nil {
			t.Errorf("call %d found no plan: %s", call+1, report.Why)
		}
	}
}

// hostile has hundreds of demands that come before the only one of honest.
func TestNamespacesTakeTurnsWithSearches(t *testing.T) {
	t.Parallel()
	searches, waited, longest := NewSearches(), 0, 0
	for range 50 {
		s := searches.begin()
		for i := range 300 {
			s.denied("hostile", fmt.Sprint(i))
		}
		for _, namespace := range []string{"others-1", "others-2", "others-3", "others-4", "others-5"} {
			s.denied(namespace, "one")
		}
		if waited++; s.denied("honest", "one") == "" {
			waited = 0
		}
		if s.count > maxSearches {
			t.Fatalf("%d searches in one call", s.count)
		}
		longest = max(longest, waited)
		s.end(false)
	}
	if longest > 4 {
		t.Errorf("one waited for %d calls", longest)
	}
}

func TestWhatNamespacesWantedIsForgottenWithTheirTasks(t *testing.T) {
	t.Parallel()
	searches := NewSearches()
	for range 3 {
		s := searches.begin()
		s.denied("gone", "one")
		s.end(false)
	}
	searches.begin().end(false)
	if len(searches.namespaces) > 0 {
		t.Errorf("%d namespaces are remembered", len(searches.namespaces))
	}
}
