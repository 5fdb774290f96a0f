// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/scheduler/filters"
)

// asking does something whenever a filter is asked.
type asking struct {
	filters.Runner
	do func()
}

func (a *asking) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	a.do()
	return a.Runner.RunFilterPlugins(ctx, state, pod, node)
}

func TestNeitherBindingsNorEventsWaitForASearch(t *testing.T) {
	f := newFramed(t, []*corev1.Node{nodeWithGPUs("n0", "8")}, nil)
	bound, gone := pod("bound", 1), pod("gone", 1)
	f.comes(bound, gone)
	for _, p := range []*corev1.Pod{bound, gone} {
		if decision := f.decide(p); decision.Node != "n0" {
			t.Fatalf("Pod %s got node %q, want n0", p.Name, decision.Node)
		}
	}
	asked := 0
	f.filters.Serve(ours, &asking{Runner: f.framework, do: func() {
		if asked++; asked > 1 {
			return
		}
		done := make(chan error)
		go func() {
			_, err := f.mirror.Assignment(bound)
			f.podDeleted(gone)
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Error("a Binding or an event waits for the end of the search")
		}
	}})
	pods := gang("train", 6, 6)
	f.comes(pods...)
	if decision := f.decide(pods[0]); decision.Node != "n0" || asked == 0 {
		t.Errorf("the gang has got node %q, want n0; filters were asked %d times", decision.Node, asked)
	}
	next := pod("next", 1)
	f.comes(next)
	if decision := f.decide(next); decision.Node != "n0" {
		t.Errorf("the next Pod has got node %q, want n0: a GPU was released during the search", decision.Node)
	}
}

// TestSearchesOfAnAttemptTakeNoLongerThanCounts: a gang that waits rests for ten times as long as its attempts take.
// What would not count of them could take all of the scheduler's time.
func TestSearchesOfAnAttemptTakeNoLongerThanCounts(t *testing.T) {
	var nodes []*corev1.Node
	var running []*corev1.Pod
	for i := range 40 {
		name := fmt.Sprint("n", i)
		nodes = append(nodes, nodeWithGPUs(name, "16"))
		running = append(running, at(pod("user-"+name, 8, withHostPort, prioritized(-1)), name))
	}
	f := newFramed(t, nodes, running)
	const step = 20 * time.Millisecond
	f.filters.Serve(ours, &asking{Runner: f.framework, do: func() { f.clock.Step(step) }})
	pods := gang("train", 300, 300, withHostPort)
	f.comes(pods...)
	longest := time.Duration(0)
	for attempt := range 8 {
		begin := f.clock.Now()
		if decision := f.decide(pods[0]); decision.Node != "" {
			t.Fatalf("the gang has got node %q", decision.Node)
		}
		f.Preempt(t.Context(), pods[0])
		took := f.clock.Now().Sub(begin)
		if longest = max(longest, took); took > longestPause {
			t.Errorf("attempt %d takes %v, of which %v count", attempt, took, longestPause)
		}
		if attempt == 0 && took > filters.SearchesOfAttempt*(filters.UsualSearch+step) {
			t.Errorf("the first attempt takes %v, want at most %v", took, filters.SearchesOfAttempt*filters.UsualSearch)
		}
		f.clock.Step(time.Hour)
	}
	t.Logf("the longest attempt took %v", longest)
}

func TestAllSearchesOfAnAttemptCountForTheNextPause(t *testing.T) {
	t.Parallel()
	if total := filters.SearchesOfAttempt * filters.LongestSearch; total > longestPause {
		t.Errorf("the searches of an attempt take up to %v, of which %v count", total, longestPause)
	}
}
