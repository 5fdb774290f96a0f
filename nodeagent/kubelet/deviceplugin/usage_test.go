// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

// fakeLister lists fixed allocations and counts its calls.
type fakeLister struct {
	inUse []podresources.Allocation
	err   error
	calls int
}

func (k *fakeLister) List(context.Context) ([]podresources.Allocation, error) {
	k.calls++
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
	b.usage = NewUsage(b.kubelet, b.clock, gpuResource, percentResource)
	pool := poolOf(t, gpus("a", "b", "c", "d"))
	b.shares = sharesService(pool, b.usage, pods...)
	b.whole = &service{
		resource: gpuResource, counterpart: percentResource, pool: pool, tracker: b.shares.tracker, usage: b.usage,
		allocator: &whole{}, logger: klog.Background(), streams: newStreams(),
	}
	return b
}

// list sets the allocations that the kubelet lists, as "pod:id,id …", and observes them.
func (b *bothWays) list(words ...string) {
	b.kubelet.inUse = listed(words...)
	b.usage.Observe(b.clock.Now(), b.kubelet.inUse)
}

// try allocates devices and expects an error with a text, or none.
func (b *bothWays) try(s *service, ids []string, want string) {
	b.Helper()
	_, err := allocate(b.T, s, ids)
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		b.Errorf("%v: got error %v, want %q", brief(ids), err, want)
	}
}

func TestAGPUIsNotAllocatedBothWays(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	b.list("trains:a,b", "serves:c::0,c::1")
	b.try(b.shares, sharesOf("a", 0, 46), "GPU a is in use as a whole by container c of Pod ns/trains, so it can't be shared")
	b.try(b.whole, []string{"d", "c"}, "shares of GPU c are in use by container c of Pod ns/serves, so it can't be allocated as a whole")
	b.try(b.shares, sharesOf("c", 2, 48), "")
	b.try(b.whole, []string{"d"}, "")
}

// NVIDIA's device plugin and its DRA driver give out the same cards.
func TestAGPUThatSomebodyElseHasGivenOutIsNotAllocated(t *testing.T) {
	t.Parallel()
	foreign := func(resource, id string) podresources.Allocation {
		return podresources.Allocation{Namespace: "ns", Pod: "other", Container: "c", Resource: resource, DeviceIDs: []string{id}}
	}
	for name, held := range map[string]podresources.Allocation{
		"as a whole":          foreign("nvidia.com/gpu", "a"),
		"time-sliced":         foreign("nvidia.com/gpu.shared", "a::3"),
		"by a resource claim": foreign("gpu.nvidia.com", "a"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBothWays(t)
			b.list()                                          // the last list that is known of
			b.kubelet.inUse = []podresources.Allocation{held} // given out since
			want := "GPU a is in use by container c of Pod ns/other as " + held.Resource
			b.try(b.whole, []string{"a"}, want)
			b.try(b.shares, sharesOf("a", 0, 46), want)
			b.try(b.whole, []string{"b"}, "")
			b.usage.Observe(b.clock.Now(), b.kubelet.inUse)
			response, err := b.whole.GetPreferredAllocation(t.Context(), &pluginapi.PreferredAllocationRequest{
				ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: []string{"a", "b", "c", "d"}, AllocationSize: 3}},
			})
			if err != nil || slices.Contains(response.ContainerResponses[0].DeviceIDs, "a") {
				t.Errorf("preferred are %v, error %v", response, err)
			}
		})
	}
}

func TestRecentAllocationsCount(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	b.list()
	b.try(b.whole, []string{"a"}, "")
	b.kubelet.inUse = listed("new:a")
	b.try(b.shares, sharesOf("a", 0, 1), "GPU a is in use as a whole by container c of Pod ns/new")
	b.try(b.shares, sharesOf("b", 0, 1), "")
	b.kubelet.inUse = listed("new:a", "newer:b::0")
	b.try(b.whole, []string{"b"}, "shares of GPU b are in use by container c of Pod ns/newer")
}

func TestEndedContainersDoNotBlock(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*bothWays){
		"that the kubelet has listed": func(b *bothWays) {
			b.list("ended:a,b::0")
			b.kubelet.inUse = nil
		},
		"that it never listed, since it rejected the Pod": func(b *bothWays) {
			b.list()
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
			if b.kubelet.calls == 0 {
				t.Error("the kubelet was not queried")
			}
		})
	}
}

func TestTheFirstAllocationQueriesTheKubelet(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	b.kubelet.inUse = listed("since-before:a")
	b.try(b.shares, sharesOf("a", 0, 46), "GPU a is in use as a whole by container c of Pod ns/since-before")
	if b.kubelet.calls != 1 {
		t.Errorf("the kubelet was queried %d times", b.kubelet.calls)
	}
}

func TestUnconfirmedUsageCountsForAMinute(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	b.list("told:a")
	b.kubelet.err = errors.New("connection refused")
	b.try(b.whole, []string{"b"}, "")
	b.clock.Step(maxAge)
	b.try(b.shares, sharesOf("a", 0, 1), "GPU a is in use as a whole by container c of Pod ns/told")
	b.try(b.shares, sharesOf("b", 0, 1), "GPU b is in use as a whole by a container that was just given devices")
	if err := b.usage.Known(); err != nil {
		t.Error(err)
	}
}

func TestNothingIsAllocatedWhileNobodyCanSayWhatIsInUse(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*bothWays){
		"since the kubelet has never listed it":              func(*bothWays) {},
		"since the kubelet listed it more than a minute ago": func(b *bothWays) { b.list("told:a"); b.clock.Step(maxAge + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBothWays(t)
			prepare(b)
			b.kubelet.err = errors.New("connection refused")
			b.try(b.shares, sharesOf("a", 0, 1), "whether the devices are in use is unknown, so they can't be allocated: connection refused")
			b.try(b.whole, []string{"d"}, "whether the devices are in use is unknown")
			if b.usage.Known() == nil {
				t.Error("what is in use counts as known")
			}
			b.kubelet.err = nil
			b.try(b.whole, []string{"d"}, "")
			if err := b.usage.Known(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnOlderListIsIgnored(t *testing.T) {
	t.Parallel()
	b := newBothWays(t)
	now := b.clock.Now()
	b.usage.Observe(now, listed("new:a"))
	b.usage.Observe(now.Add(-time.Second), listed("old:b"))
	used, fresh := b.usage.cached()
	want := inUse{"a": users{whole: []string{"container c of Pod ns/new"}}}
	if diff := cmp.Diff(want, used, cmp.AllowUnexported(users{})); diff != "" || !fresh {
		t.Errorf("fresh: %v (-want +got):\n%s", fresh, diff)
	}
}

// TestDevicesOfOthersAreAvoided has a scheduler that chooses nothing, with pending and
// running Pods.
func TestDevicesOfOthersAreAvoided(t *testing.T) {
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
		b.list("trains:a,b,c")
		if got := brief(b.shares.prefer(t.Context(), request{available: shares(all...), size: 46})); got != "d 0-45" {
			t.Errorf("got %s", got)
		}
		b.list("trains:a,b,c,d")
		if got := brief(b.shares.prefer(t.Context(), request{available: shares(all...), size: 46})); got != "a 0-45" {
			t.Errorf("got %q, which hides why it is refused", got)
		}
		b.kubelet.inUse = listed("trains:a,b,c")
		if got := brief(b.shares.prefer(t.Context(), request{available: shares(all...), size: 46})); got != "d 0-45" {
			t.Errorf("the kubelet knows that d is free again, but got %s", got)
		}
	})
	t.Run("a whole GPU has no shares in use", func(t *testing.T) {
		t.Parallel()
		b := newBothWays(t)
		b.list("serves:a::0,b::0")
		if diff := cmp.Diff([]string{"c"}, b.whole.prefer(t.Context(), request{available: all, size: 1})); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
		b.kubelet.inUse = listed("serves:a::0")
		if diff := cmp.Diff([]string{"b", "c", "d"}, b.whole.prefer(t.Context(), request{available: all, size: 3})); diff != "" {
			t.Errorf("the kubelet knows that b is free again (-want +got):\n%s", diff)
		}
	})
	t.Run("a whole GPU has no shares assigned", func(t *testing.T) {
		t.Parallel()
		b := newBothWays(t, podWithShare(t, "waits", 1, 46, "a"), podWithShare(t, "waits-too", 1, 46, "b"))
		if diff := cmp.Diff([]string{"c"}, b.whole.prefer(t.Context(), request{available: all, size: 1})); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
	})
}
