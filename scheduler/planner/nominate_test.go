// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// nominationsWritten returns a channel of what is written: "train-1: a".
func (f *fixture) nominationsWritten() <-chan string {
	written := make(chan string, 100)
	f.handle.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction) //nolint:forcetypeassert // by the reactor's verb
		var body struct {
			Metadata struct {
				UID             types.UID
				ResourceVersion string
			}
			Status struct{ NominatedNodeName *string }
		}
		if err := json.Unmarshal(patch.GetPatch(), &body); err != nil {
			f.t.Error(err)
		}
		if body.Status.NominatedNodeName != nil {
			if patch.GetSubresource() != "status" || string(body.Metadata.UID) != patch.GetName() || body.Metadata.ResourceVersion != "1" {
				f.t.Errorf("patch %s of %q, want one of this version of the Pod's status", patch.GetPatch(), patch.GetSubresource())
			}
			written <- patch.GetName() + ": " + *body.Status.NominatedNodeName
		}
		return true, &corev1.Pod{}, nil
	})
	return written
}

func receive(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case one := <-from:
		return one
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is written")
		return ""
	}
}

func nominatedFor(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

func version(number string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.ResourceVersion = number }
}

func TestPreemptorsAreNominatedForTheNodesOfTheirVictimsAsLongAsNodesAreKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	written := f.nominationsWritten()
	f.addNode("a", "l", 2)
	f.addNode("b", "l", 1)
	f.comes(at(pod("x", 2, prioritized(1)), "a", 0, 1))
	pods := gang("train", 3, 3, prioritized(5), version("1"))
	f.comes(pods...)
	f.decide(pods[0])
	f.Preempt(t.Context(), pods[0])
	got := map[string]string{}
	for _, one := range pods {
		if node := f.evictor.Nominated(one); node != "" {
			got[one.Name] = node
		}
	}
	if len(got) != 2 || got["train-0"] != "a" && got["train-1"] != "a" {
		t.Fatalf("nominated are %v, want two for node a, where the victim is", got)
	}
	wrote, wantWritten := map[string]bool{}, map[string]bool{}
	for _, one := range pods[1:] { // the framework writes the leader's
		if got[one.Name] != "" {
			wrote[receive(t, written)], wantWritten[one.Name+": a"] = true, true
		}
	}
	if diff := cmp.Diff(wantWritten, wrote); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	for _, one := range pods {
		changed := one.DeepCopy()
		changed.Status.NominatedNodeName = got[one.Name]
		f.podUpdated(one, changed)
	}
	f.clock.Step(2 * time.Duration(f.args.ClaimSeconds) * time.Second)
	f.maintain(t.Context())
	cleared := map[string]bool{receive(t, written): true, receive(t, written): true}
	want := map[string]bool{}
	for name := range got {
		want[name+": "] = true
	}
	if diff := cmp.Diff(want, cleared); diff != "" {
		t.Errorf("cleared (-want +got):\n%s", diff)
	}
	if node := f.evictor.Nominated(pods[0]); node != "" {
		t.Errorf("the leader is still nominated for %s", node)
	}
}

func TestPodsGoToTheNodesThatTheyAreNominatedFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		waiting []*corev1.Pod
		running []*corev1.Pod
		want    map[string]string
	}{
		"one that would go elsewhere": {
			waiting: []*corev1.Pod{pod("p", 1, nominatedFor("b"))}, want: map[string]string{"p": "b"},
		},
		"not if it does not fit there any more": {
			waiting: []*corev1.Pod{pod("p", 1, nominatedFor("b"))}, running: []*corev1.Pod{at(pod("x", 4), "b", 0, 1, 2, 3)}, want: map[string]string{"p": "a"},
		},
		"not if the node is gone": {
			waiting: []*corev1.Pod{pod("p", 1, nominatedFor("gone"))}, want: map[string]string{"p": "a"},
		},
		"each member to its own": {
			waiting: []*corev1.Pod{pod("g-0", 1, in("g", 2, 0), nominatedFor("b")), pod("g-1", 1, in("g", 2, 1), nominatedFor("a"))},
			running: []*corev1.Pod{at(pod("y", 3), "b", 0, 1, 2)},
			want:    map[string]string{"g-0": "b", "g-1": "a"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 2) // the better fit
			f.addNode("b", "l", 4)
			f.comes(at(pod("z", 1), "a", 0))
			f.comes(test.running...)
			f.comes(test.waiting...)
			got := map[string]string{}
			f.decide(test.waiting[0])
			for _, one := range test.waiting {
				if seat, seated := f.registry.SeatOf(one.UID); seated {
					got[one.Name] = seat.Node
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("seats (-want +got):\n%s", diff)
			}
		})
	}
}

// kube-scheduler's filter counts a nominated Pod against others of its priority: a gang that comes first would be
// refused for ever by its node, while the one that is nominated waits for it.
func TestWhoIsRefusedIsNotKeptAwayByNominationsFromBeforeARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	written := f.nominationsWritten()
	f.addNode("a", "l", 2)
	first, stale := pod("first", 2), pod("stale", 2, later(1), nominatedFor("a"), version("1"))
	f.comes(first, stale)
	decision := f.decide(first)
	if decision.Node != "a" {
		t.Fatalf("the first one gets %+v", decision)
	}
	f.Refuse(t.Context(), first.UID, decision.Plan, "a")
	if text := receive(t, written); text != "stale: " {
		t.Errorf("written is %q, want that nobody is nominated", text)
	}
}
