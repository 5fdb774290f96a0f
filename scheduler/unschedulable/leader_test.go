// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package unschedulable

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

// withLeader returns a fixture with a Pod that waits alone.
func withLeader(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.gang("train", 1)
	f.leader, f.waiting["train"] = "train-0", nil
	return f
}

func short(message string) v1.WaitingReason {
	return v1.WaitingReason{
		Reason: v1.WaitsForGPUs, Needs: "needs 4 GPUs", Message: message, Remedies: []v1.WaitingRemedy{{Kind: "FreeGPUs", Message: "with 2 more free GPUs"}},
	}
}

func (f *fixture) published() string {
	f.Helper()
	if reason := waitingreason.Published(f.pod(f.leader)); reason != nil {
		return reason.Message
	}
	return ""
}

func TestTheLeaderOfAGangSaysWhyItWaits(t *testing.T) {
	t.Parallel()
	f := withLeader(t)
	if said := f.Say("train", short("2 nodes have too few free GPUs")); said != "2 nodes have too few free GPUs; needs 4 GPUs; it would start with 2 more free GPUs" {
		t.Errorf("it is said: %s", said)
	}
	f.want(settle) // it may start at once
	f.want(leaderSettle, "train-0")
	want := short("2 nodes have too few free GPUs")
	got := waitingreason.Published(f.pod("train-0"))
	if got == nil || !waitingreason.Same(got, &want) || !got.Time.Equal(new(metav1.NewTime(beginning))) {
		t.Errorf("published %+v", got)
	}
	f.Say("train", short("2 nodes have too few free GPUs"))
	f.want(time.Hour)
	f.Reporter = New(f.Options) // of a scheduler that has taken over
	f.Say("train", short("2 nodes have too few free GPUs"))
	f.want(time.Hour)
}

func TestWhatDoesNotWaitItsTurnSaysSoAtOnce(t *testing.T) {
	t.Parallel()
	for _, cause := range []v1.WaitingCause{v1.WaitsForever, v1.WaitsForClosedNodes, v1.WaitsForExternal, v1.WaitsForQueueAccess, v1.WaitsForChange} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			f := withLeader(t)
			f.Say("train", v1.WaitingReason{Reason: cause, Message: "it does not fit"})
			f.want(settle, "train-0")
		})
	}
}

func TestNumbersThatKeepChangingAreSaidFromTimeToTime(t *testing.T) {
	t.Parallel()
	f := withLeader(t)
	first := f.Say("train", short("2 nodes have too few free GPUs"))
	f.want(leaderSettle, "train-0")
	f.clock.Step(numbersPeriod - leaderSettle - 1)
	if said := f.Say("train", short("3 nodes have too few free GPUs")); said != first {
		t.Errorf("soon: %s", said)
	}
	f.want(0)
	f.clock.Step(1)
	if said := f.Say("train", short("4 nodes have too few free GPUs")); said == first {
		t.Error("later, the same is said")
	}
	f.want(0, "train-0")
	if got := f.published(); got != "4 nodes have too few free GPUs" {
		t.Errorf("published %s", got)
	}
}

func TestAnotherReasonIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*v1.WaitingReason){
		"another cause":    func(r *v1.WaitingReason) { r.Reason = v1.WaitsForQueue },
		"other needs":      func(r *v1.WaitingReason) { r.Needs = "needs 2 GPUs" },
		"it never fits":    func(r *v1.WaitingReason) { r.Never = true },
		"another remedy":   func(r *v1.WaitingReason) { r.Remedies[0].Kind = "FewerGPUs" },
		"fewer remedies":   func(r *v1.WaitingReason) { r.Remedies = nil },
		"another resource": func(r *v1.WaitingReason) { r.Remedies[0].Resource = "rdma/hca" },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := withLeader(t)
			f.Say("train", short("2 nodes have too few free GPUs"))
			f.want(leaderSettle, "train-0")
			next := short("3 nodes have too few free GPUs")
			change(&next)
			if said := f.Say("train", next); said != waitingreason.Sentence(&next) {
				t.Errorf("it is said: %s", said)
			}
			f.want(period)
			f.want(leaderPeriod, "train-0")
		})
	}
}

func TestTheReasonIsWrittenTogetherWithAnEstimate(t *testing.T) {
	t.Parallel()
	f := withLeader(t)
	f.Say("train", short("2 nodes have too few free GPUs"))
	estimate := map[string]string{v1.AnnotationStartEstimate: "{}"}
	if err := f.Annotate(t.Context(), f.pod("train-0"), "train", estimate); err != nil {
		t.Fatal(err)
	}
	f.want(leaderSettle, "train-0") // by that write
	if pod := f.pod("train-0"); pod.Annotations[v1.AnnotationStartEstimate] != "{}" || f.published() == "" {
		t.Errorf("annotations %v", pod.Annotations)
	}
	if len(estimate) != 1 {
		t.Error("the caller's annotations have changed")
	}
}

func TestTheReasonIsNotWrittenForLongIfAPodWaitsForOthersThatLeave(t *testing.T) {
	t.Parallel()
	f := withLeader(t)
	f.makingRoom = true
	f.Say("train", short("2 nodes have too few free GPUs"))
	f.want(leaderSettle)
	f.makingRoom = false
	f.want(period, "train-0")
}

func TestAReasonThatCanNotBeWrittenIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := withLeader(t)
	f.refuse = errors.New("connection refused")
	f.Say("train", short("2 nodes have too few free GPUs"))
	f.want(leaderSettle, "train-0")
	f.refuse = nil
	f.want(period, "train-0")
	f.want(period)
}
