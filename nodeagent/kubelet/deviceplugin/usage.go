// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// Usage tracks which GPUs are in use, whole or in shares. To the kubelet these are two
// unrelated resources, so without it a GPU could be allocated as both.
//
// Devices that a container no longer has must not block others. So no allocation is
// refused before the kubelet has been queried again: it allocates devices to one
// container after another, and knows all that it allocated before. It does not list
// init containers that end before the others start; those of another Pod go unnoticed
// unless its other containers have the same GPU.
type Usage struct {
	kubelet podresources.Lister
	clock   clock.Clock

	mu sync.Mutex
	// listed is the kubelet's latest list.
	listed inUse
	asked  time.Time
	// recent are allocations that the kubelet may not have listed yet.
	recent []recentAllocation
}

const (
	// maxAge is how long the latest list and recent allocations count without being
	// confirmed. It matters only while the kubelet does not answer.
	maxAge = time.Minute
	// listDelay is how long after an allocation the kubelet may take to list it.
	listDelay = time.Second
	// queryTimeout bounds a query to the kubelet, which waits for our answer meanwhile.
	queryTimeout = 2 * time.Second
)

type recentAllocation struct {
	ids []string
	at  time.Time
}

// inUse has the users of GPUs by the GPUs' UUIDs.
type inUse map[string]users

// users describes the containers that have a GPU, for messages.
type users struct{ whole, shares []string }

// NewUsage returns a Usage without any allocations.
func NewUsage(kubelet podresources.Lister, c clock.Clock) *Usage {
	return &Usage{kubelet: kubelet, clock: c}
}

// Observe takes over a list of the kubelet, with the time at which it was requested.
func (u *Usage) Observe(asked time.Time, allocations []podresources.Allocation) {
	listed := inUse{}
	for i := range allocations {
		a := &allocations[i]
		listed.add(a.DeviceIDs, fmt.Sprintf("container %s of Pod %s/%s", a.Container, a.Namespace, a.Pod))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if asked.Before(u.asked) {
		return // a newer list has been observed
	}
	u.listed, u.asked = listed, asked
	u.recent = slices.DeleteFunc(u.recent, func(r recentAllocation) bool { return asked.Sub(r.at) > listDelay })
}

// record adds an allocation that has just been made.
func (u *Usage) record(ids []string) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.Now()
	u.recent = slices.DeleteFunc(u.recent, func(r recentAllocation) bool { return now.Sub(r.at) > maxAge })
	u.recent = append(u.recent, recentAllocation{ids: slices.Clone(ids), at: now})
}

// cached returns what was in use when the kubelet last listed it and what was allocated
// since, and whether that list is recent enough to rely on.
func (u *Usage) cached() (used inUse, fresh bool) {
	used = inUse{}
	if u == nil {
		return used, true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.Now()
	fresh = !u.asked.IsZero() && now.Sub(u.asked) <= maxAge
	if fresh {
		for gpu, listed := range u.listed {
			used[gpu] = users{whole: slices.Clip(listed.whole), shares: slices.Clip(listed.shares)}
		}
	}
	for _, r := range u.recent {
		if now.Sub(r.at) <= maxAge {
			used.add(r.ids, "a container that was just given devices")
		}
	}
	return used, fresh
}

// query returns what the kubelet lists now, or what is cached if it does not answer.
func (u *Usage) query(ctx context.Context) inUse {
	cached, _ := u.cached()
	if u == nil {
		return cached
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	asked := u.clock.Now()
	allocations, err := u.kubelet.List(ctx)
	if err != nil {
		klog.FromContext(ctx).Info("The kubelet does not list the GPUs in use; its last list counts for a minute", "err", err)
		return cached
	}
	u.Observe(asked, allocations)
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.listed
}

// check returns an error if devices are in use as the other resource: GPUs in shares, or
// shares of GPUs that are in use as a whole.
func (u *Usage) check(ctx context.Context, ids []string) error {
	if u == nil {
		return nil
	}
	if cached, fresh := u.cached(); fresh && cached.conflict(ids) == nil {
		return nil
	}
	return u.query(ctx).conflict(ids)
}

func (i inUse) add(ids []string, user string) {
	for _, id := range ids {
		gpu, isShare := share.Of(id)
		of := i[gpu]
		list := &of.whole
		if isShare {
			list = &of.shares
		}
		if !slices.Contains(*list, user) { // a container has many shares
			*list = append(*list, user)
			i[gpu] = of
		}
	}
}

// conflict returns why devices can't be allocated.
func (i inUse) conflict(ids []string) error {
	for _, id := range ids {
		gpu, isShare := share.Of(id)
		switch of := i[gpu]; {
		case isShare && len(of.whole) > 0:
			return status.Errorf(codes.FailedPrecondition, "GPU %s is in use as a whole by %s, so it can't be shared",
				gpu, strings.Join(of.whole, " and "))
		case !isShare && len(of.shares) > 0:
			return status.Errorf(codes.FailedPrecondition, "shares of GPU %s are in use by %s, so it can't be allocated as a whole",
				gpu, strings.Join(of.shares, " and "))
		}
	}
	return nil
}
