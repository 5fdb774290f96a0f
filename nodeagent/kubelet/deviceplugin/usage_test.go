// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

// fakeLister tells what is in use, and counts how often it is asked.
type fakeLister struct {
	inUse []podresources.Allocation
	err   error
	asked int
}

func (k *fakeLister) List(context.Context) ([]podresources.Allocation, error) {
	k.asked++
	return k.inUse, k.err
}

// bothWays serves the same GPUs as a whole and in shares.
type bothWays struct {
	*testing.T
	kubelet       *fakeLister
	clock         *clocktesting.FakeClock
	usage         *Usage
	whole, shares *service
}

func newBothWays(t *testing.T, pods ...*corev1.Pod) *bothWays {
	t.Helper()
	b := &bothWays{T: t, kubelet: &fakeLister{}, clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
	b.usage = NewUsage(b.kubelet, b.clock)
	pool := poolOf(t, gpus("a", "b", "c", "d"))
	b.shares = sharesService(pool, b.usage, pods...)
	b.whole = &service{
		resource: gpuResource, counterpart: percentResource, pool: pool, claims: b.shares.claims, usage: b.usage,
		offer: &whole{}, logger: klog.Background(), streams: newStreams(),
	}
	return b
}

// tells has the kubelet tell what is in use, as "pod:id,id …", when it is asked in
// its turn.
func (b *bothWays) tells(words ...string) {
	b.kubelet.inUse = lists(words...)
	b.usage.Observe(b.clock.Now(), b.kubelet.inUse)
}

// try allocates devices and wants an error with that text, or none.
func (b *bothWays) try(s *service, ids []string, want string) {
	b.Helper()
	_, err := allocate(b.T, s, ids)
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		b.Errorf("%v: got error %v, want %q", brief(ids), err, want)
	}
}

func TestAGPUIsNotGivenAwayBothWays(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	b.tells("trains:a,b", "serves:c::0,c::1")
	b.try(b.shares, sharesOf("a", 0, 46), "GPU a is in use as a whole by container c of Pod ns/trains, so nobody can have a share of it")
	b.try(b.whole, []string{"d", "c"}, "shares of GPU c are in use by container c of Pod ns/serves, so nobody can have it as a whole")
	before := b.kubelet.asked
	b.try(b.shares, sharesOf("c", 2, 48), "")
	b.try(b.whole, []string{"d"}, "")
	if b.kubelet.asked != before {
		t.Errorf("the kubelet was asked %d times although nothing is in the way", b.kubelet.asked-before)
	}
}

func TestWhatWasJustGivenAwayIsKnown(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	b.tells()
	b.try(b.whole, []string{"a"}, "")
	b.kubelet.inUse = lists("new:a")
	b.try(b.shares, sharesOf("a", 0, 1), "GPU a is in use as a whole by container c of Pod ns/new")
	b.try(b.shares, sharesOf("b", 0, 1), "")
	b.kubelet.inUse = lists("new:a", "newer:b::0")
	b.try(b.whole, []string{"b"}, "shares of GPU b are in use by container c of Pod ns/newer")
}

func TestWhoHasEndedIsNotInTheWay(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*bothWays){
		"whom the kubelet told of": func(b *bothWays) {
			b.tells("ended:a,b::0")
			b.kubelet.inUse = nil
		},
		"whom it never told of, since it refused the Pod in the end": func(b *bothWays) {
			b.tells()
			b.try(b.whole, []string{"a"}, "")
			b.try(b.shares, sharesOf("b", 0, 1), "")
		},
	}
	for name, ended := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBothWays(t)
			ended(b)
			b.try(b.shares, sharesOf("a", 0, 46), "")
			b.try(b.whole, []string{"b"}, "")
			if b.kubelet.asked == 0 {
				t.Error("the kubelet was not asked")
			}
		})
	}
}

func TestTheFirstAllocationAsksTheKubelet(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	b.kubelet.inUse = lists("since-before:a")
	b.try(b.shares, sharesOf("a", 0, 46), "GPU a is in use as a whole by container c of Pod ns/since-before")
	if b.kubelet.asked != 1 {
		t.Errorf("the kubelet was asked %d times", b.kubelet.asked)
	}
}

func TestWhatTheKubeletDoesNotConfirmIsBelievedForAMinute(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	b.tells("told:a")
	b.kubelet.err = errors.New("connection refused")
	b.try(b.whole, []string{"b"}, "")
	b.clock.Step(believed)
	b.try(b.shares, sharesOf("a", 0, 1), "GPU a is in use as a whole by container c of Pod ns/told")
	b.try(b.shares, sharesOf("b", 0, 1), "GPU b is in use as a whole by a container that came just now")
	b.clock.Step(time.Nanosecond)
	b.try(b.shares, sharesOf("a", 0, 1), "")
	b.try(b.shares, sharesOf("b", 0, 1), "")
}

func TestOldNewsIsNoNews(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	now := b.clock.Now()
	b.usage.Observe(now, lists("new:a"))
	b.usage.Observe(now.Add(-time.Second), lists("old:b"))
	known, lately := b.usage.known()
	want := inUse{"a": users{whole: []string{"container c of Pod ns/new"}}}
	if diff := cmp.Diff(want, known, cmp.AllowUnexported(users{})); diff != "" || !lately {
		t.Errorf("known lately: %v (-want +got):\n%s", lately, diff)
	}
}

// TestOthersAreLeftAlone has a scheduler that chooses nothing, with Pods that wait
// and Pods that run.
func TestOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c", "d"}
	shares := func(gpus ...string) (ids []string) {
		for _, gpu := range gpus {
			ids = append(ids, sharesOf(gpu, 0, 100)...)
		}
		return ids
	}
	t.Run("a share is not of a GPU that is in use", func(t *testing.T) {
		t.Parallel()
		b := newBothWays(t)
		b.tells("trains:a,b,c")
		if got := brief(b.shares.prefer(t.Context(), request{available: shares(all...), size: 46})); got != "d 0-45" {
			t.Errorf("got %s", got)
		}
		b.tells("trains:a,b,c,d")
		if got := brief(b.shares.prefer(t.Context(), request{available: shares(all...), size: 46})); got != "a 0-45" {
			t.Errorf("the reason can't be told of %q", got)
		}
		b.kubelet.inUse = lists("trains:a,b,c")
		if got := brief(b.shares.prefer(t.Context(), request{available: shares(all...), size: 46})); got != "d 0-45" {
			t.Errorf("the kubelet knows that d is free again, but got %s", got)
		}
	})
	t.Run("a whole GPU is none of which shares are in use", func(t *testing.T) {
		t.Parallel()
		b := newBothWays(t)
		b.tells("serves:a::0,b::0")
		if diff := cmp.Diff([]string{"c"}, b.whole.prefer(t.Context(), request{available: all, size: 1})); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
		b.kubelet.inUse = lists("serves:a::0")
		if diff := cmp.Diff([]string{"b", "c", "d"}, b.whole.prefer(t.Context(), request{available: all, size: 3})); diff != "" {
			t.Errorf("the kubelet knows that b is free again (-want +got):\n%s", diff)
		}
	})
	t.Run("a whole GPU is none of which shares are promised", func(t *testing.T) {
		t.Parallel()
		b := newBothWays(t, sharer(t, "waits", 1, 46, "a"), sharer(t, "waits-too", 1, 46, "b"))
		if diff := cmp.Diff([]string{"c"}, b.whole.prefer(t.Context(), request{available: all, size: 1})); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
	})
}
