// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// story is a history that is made by hand. Each fact is a second after the one before, unless time passes.
type story struct {
	now   time.Duration
	facts []fact
}

// storyBegin is the time of day at which stories begin.
var storyBegin = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// storyShares are two teams in an organisation, and a queue that only borrows.
var storyShares = map[string]share{
	"org":   {guaranteed: 8},
	"a":     {parent: "org", guaranteed: 4},
	"b":     {parent: "org", guaranteed: 4, limit: 6, notice: 2 * time.Second},
	"lent":  {minRuntime: 3 * time.Second},
	"whole": {},
}

var storyBounds = bounds{step: 5 * time.Second, retry: 10 * time.Second, takeover: 4 * time.Second, longest: 20 * time.Second, drain: 30 * time.Second}

// newStory begins with two nodes of four GPUs.
func newStory() *story {
	s := &story{}
	s.node("n-0", true)
	s.node("n-1", true)
	return s
}

func (s *story) add(f fact) *story {
	s.now += time.Second
	f.at, f.wall = s.now, storyBegin.Add(s.now)
	s.facts = append(s.facts, f)
	return s
}

func (s *story) passes(more time.Duration) *story {
	s.now += more
	return s
}

func (s *story) node(name string, usable bool) *story {
	return s.add(fact{node: &nodeFact{name: name, gpus: 4, usable: usable}})
}

// pod has a Pod of its own gang wait, or run on a node.
func (s *story) pod(name, queue string, gpus int, node string) *story {
	return s.add(fact{pod: &podFact{uid: types.UID(name), gang: name, queue: queue, size: 1, gpus: gpus, node: node, revision: s.now.String()}})
}

// ends has Pod x of a queue end, which has four GPUs of n-0, and gone has it deleted.
func (s *story) ends(queue string) *story {
	return s.add(fact{pod: &podFact{uid: "x", gang: "x", queue: queue, size: 1, gpus: 4, node: "n-0", ended: true}})
}

func (s *story) gone() *story {
	return s.add(fact{pod: &podFact{uid: "x", gang: "x", queue: "lent", size: 1, gpus: 4, node: "n-0", gone: true}})
}

// promised tells Pod x that it starts so many minutes after the beginning at the latest, and explained says why it is
// later.
func (s *story) promised(minutes int) *story {
	promise := &v1.StartEstimate{Latest: metav1.NewTime(storyBegin.Add(time.Duration(minutes) * time.Minute)), Reserved: true}
	return s.add(fact{pod: &podFact{uid: "x", gang: "x", queue: "lent", size: 1, gpus: 1, promise: promise}})
}

func (s *story) explained() *story {
	return s.add(fact{postponed: &postponedFact{pod: "x", note: "because"}})
}

// used has the status of queue lent say how much was used until now, decayed by a half-life of an hour.
func (s *story) used(total, decayed float64) *story {
	asOf := storyBegin.Add(s.now + time.Second)
	return s.add(fact{used: &usedFact{queue: "lent", asOf: asOf, total: total, decayed: decayed, halfLife: time.Hour}})
}

// task has task x of a queue exist.
func (s *story) task(queue string, over bool) *story {
	return s.add(fact{task: &taskFact{name: "x", queue: queue, over: over}})
}

func (s *story) killed(process string) *story { return s.add(fact{killed: process}) }

func (s *story) mark(reached mark) *story { return s.add(fact{mark: reached}) }

// TestTheInvariantsNotice checks histories that violate an invariant, and others that nearly do.
func TestTheInvariantsNotice(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		story *story
		want  string // a part of the only problem; empty for none
	}{
		"a queue beyond its limit": {
			newStory().pod("x", "b", 4, "n-0").pod("y", "b", 3, "n-1"), "queue b holds 7 GPUs",
		},
		"a queue at its limit": {
			newStory().pod("x", "b", 4, "n-0").pod("y", "b", 2, "n-1"), "",
		},
		"a queue that is beyond its limit only if those count that have ended": {
			newStory().pod("x", "b", 4, "n-0").ends("b").pod("y", "b", 3, "n-1"), "",
		},
		"a queue that does not get what is free": {
			newStory().pod("x", "a", 2, "").passes(21*time.Second).pod("y", "whole", 1, "n-0"), "x in queue a waits",
		},
		"a queue that does not get back what others have borrowed": {
			newStory().pod("x", "lent", 4, "n-0").pod("y", "lent", 4, "n-1").pod("z", "a", 4, "").passes(21*time.Second).pod("w", "lent", 1, ""), "z in queue a waits",
		},
		"a queue that gets it just in time": {
			newStory().pod("x", "lent", 4, "n-0").pod("y", "lent", 4, "n-1").pod("z", "a", 4, "").passes(17*time.Second).ends("lent").pod("z", "a", 4, "n-0"), "",
		},
		"a queue that does not get back what its sibling has borrowed": {
			newStory().pod("x", "a", 4, "n-0").pod("y", "a", 4, "n-1").pod("z", "b", 4, "").passes(21*time.Second).node("n-0", true), "z in queue b waits",
		},
		"a queue that has what it is guaranteed": {
			newStory().pod("x", "lent", 4, "n-0").pod("y", "a", 2, "n-1").pod("z", "a", 3, "").passes(time.Minute).node("n-0", true), "",
		},
		"a queue that waits while the scheduler is killed": {
			newStory().pod("x", "a", 2, "").passes(8*time.Second).killed(gpuScheduler).passes(12*time.Second).pod("y", "whole", 1, "n-0"), "",
		},
		"a queue that waits while a node is not usable": {
			newStory().pod("x", "a", 2, "").passes(10*time.Second).node("n-1", false).passes(10*time.Second).node("n-1", true).passes(10*time.Second).node("n-1", true), "",
		},
		"a queue whose guarantee does not fit on any node": {
			newStory().pod("x", "b", 2, "n-0").pod("y", "b", 2, "n-1").pod("z", "a", 4, "").passes(time.Minute).node("n-0", true), "",
		},
		"a promise that moves without a reason": {
			newStory().promised(10).promised(14).passes(6*time.Second).node("n-0", true), "no Event says why",
		},
		"a promise that moves without a reason at the end": {
			newStory().promised(10).promised(14), "no Event says why",
		},
		"a promise that moves for a reason that is observed before": {
			newStory().promised(10).explained().promised(14).passes(time.Minute).node("n-0", true), "",
		},
		"a promise that moves for a reason that is observed later": {
			newStory().promised(10).promised(14).explained().passes(time.Minute).node("n-0", true), "",
		},
		"a promise that moves for the reason of the time before": {
			newStory().promised(10).explained().promised(14).promised(20), "no Event says why",
		},
		"a promise that moves a little": {
			newStory().promised(10).promised(11), "",
		},
		"GPU time that is less than before": {
			newStory().pod("x", "lent", 4, "n-0").used(4, 4).killed(gpuController).used(0, 0), "had used 4 GPU-seconds, and then 0",
		},
		"GPU time that drops by more than its decay": {
			newStory().pod("x", "lent", 4, "n-0").passes(99*time.Second).used(400, 400).used(404, 300), "with decay",
		},
		"GPU time that decays": {
			newStory().pod("x", "lent", 4, "n-0").passes(99*time.Second).used(400, 400).ends("lent").passes(time.Hour).used(404, 201), "",
		},
		"GPU time that is lost over a restart": {
			newStory().pod("x", "lent", 4, "n-0").passes(9*time.Second).used(40, 40).killed(gpuController).passes(29*time.Second).used(60, 60), "its Pods held 124",
		},
		"GPU time that is counted twice": {
			newStory().pod("x", "lent", 4, "n-0").passes(9*time.Second).used(40, 40).killed(gpuController).passes(29*time.Second).used(204, 204), "its Pods held 124",
		},
		"GPU time that is counted over a restart": {
			newStory().pod("x", "lent", 4, "n-0").passes(9*time.Second).used(40, 40).killed(gpuController).passes(29*time.Second).used(164, 164), "",
		},
		"GPU time of a Pod that was deleted around a restart": {
			newStory().pod("x", "lent", 4, "n-0").used(4, 4).passes(9*time.Second).gone().killed(gpuController).used(4, 4), "",
		},
		"GPU time of a Pod that was deleted": {
			newStory().pod("x", "lent", 4, "n-0").used(4, 4).passes(9*time.Second).gone().used(4, 4), "its Pods held 40",
		},
		"a task that never starts": {
			newStory().task("lent", false), "GPUTask x in queue lent has not ended",
		},
		"a task that starts too late when no other comes": {
			newStory().task("lent", false).mark(nothingComes).passes(30*time.Second).pod("x", "lent", 1, "n-0").task("lent", true), "has waited for 31s",
		},
		"a gang of all GPUs that starts when no other comes": {
			newStory().task("whole", false).mark(nothingComes).pod("x", "whole", 1, "n-0").task("whole", true), "only when no other came",
		},
		"a gang of all GPUs that waits too long beside others": {
			newStory().task("whole", false).mark(nothingIsOwed).passes(55*time.Second).pod("x", "whole", 1, "n-0").task("whole", true), "at most 55s is due",
		},
		"a gang of all GPUs that waits long for a node, or for the next scheduler": {
			newStory().task("whole", false).mark(nothingIsOwed).passes(time.Minute).node("n-0", false).node("n-0", true).passes(30*time.Second).
				killed(gpuScheduler).passes(50*time.Second).pod("x", "whole", 1, "n-0").task("whole", true).mark(nothingComes), "",
		},
		"a gang of all GPUs that starts beside others": {
			newStory().task("whole", false).passes(time.Hour).mark(nothingIsOwed).passes(50*time.Second).pod("x", "whole", 1, "n-0").task("whole", true).mark(nothingComes), "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems, _ := newInvariants(storyShares, storyBounds, "whole").check(test.story.facts)
			if test.want == "" && len(problems) == 0 {
				return
			}
			if test.want == "" || len(problems) != 1 || !slices.ContainsFunc(problems, func(text string) bool { return strings.Contains(text, test.want) }) {
				t.Errorf("problems %q, want one that contains %q", problems, test.want)
			}
		})
	}
}
