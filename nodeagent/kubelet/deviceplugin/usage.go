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

// Usage knows which GPUs are in use, whole or in shares. To the kubelet these are
// two resources that have nothing to do with each other, so without it a GPU
// could be given away both ways.
//
// What containers have had must not stand in the way of others. So nobody is
// refused before the kubelet has been asked once more: it gives devices to one
// container after another, and knows what it gave to all before. It tells nothing
// of init containers that end before the others start; those of another Pod go
// unnoticed unless its other containers have the same GPU.
type Usage struct {
	kubelet podresources.Lister
	clock   clock.Clock

	mu sync.Mutex
	// listed is what the kubelet told when it was last asked.
	listed inUse
	asked  time.Time
	// recent are allocations that the kubelet may not have told of yet.
	recent []recentUse
}

const (
	// believed is how long what was known counts without being confirmed. It
	// matters only while the kubelet does not tell what is in use.
	believed = time.Minute
	// tellDelay is how long the kubelet may need after an allocation until it
	// tells of it.
	tellDelay = time.Second
	// askTimeout bounds asking the kubelet while it waits for an answer itself.
	askTimeout = 2 * time.Second
)

type recentUse struct {
	ids []string
	at  time.Time
}

// inUse are the users of GPUs by the GPUs' UUIDs.
type inUse map[string]users

// users are the containers that have a GPU, in words.
type users struct{ whole, shares []string }

// NewUsage returns a Usage that knows of nothing.
func NewUsage(kubelet podresources.Lister, c clock.Clock) *Usage {
	return &Usage{kubelet: kubelet, clock: c}
}

// Observe learns what the kubelet has told when it was asked at that time.
func (u *Usage) Observe(asked time.Time, allocations []podresources.Allocation) {
	listed := inUse{}
	for i := range allocations {
		a := &allocations[i]
		listed.add(a.DeviceIDs, fmt.Sprintf("container %s of Pod %s/%s", a.Container, a.Namespace, a.Pod))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if asked.Before(u.asked) {
		return // somebody else knows better
	}
	u.listed, u.asked = listed, asked
	u.recent = slices.DeleteFunc(u.recent, func(r recentUse) bool { return asked.Sub(r.at) > tellDelay })
}

// given notes what a container has just got.
func (u *Usage) given(ids []string) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.Now()
	u.recent = slices.DeleteFunc(u.recent, func(r recentUse) bool { return now.Sub(r.at) > believed })
	u.recent = append(u.recent, recentUse{ids: slices.Clone(ids), at: now})
}

// known returns what is thought to be in use, and whether the kubelet has told of
// it lately.
func (u *Usage) known() (known inUse, lately bool) {
	known = inUse{}
	if u == nil {
		return known, true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.Now()
	lately = !u.asked.IsZero() && now.Sub(u.asked) <= believed
	if lately {
		for gpu, listed := range u.listed {
			known[gpu] = users{whole: slices.Clip(listed.whole), shares: slices.Clip(listed.shares)}
		}
	}
	for _, r := range u.recent {
		if now.Sub(r.at) <= believed {
			known.add(r.ids, "a container that came just now")
		}
	}
	return known, lately
}

// ask returns what the kubelet says now, or what was known if it says nothing.
func (u *Usage) ask(ctx context.Context) inUse {
	known, _ := u.known()
	if u == nil {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	asked := u.clock.Now()
	allocations, err := u.kubelet.List(ctx)
	if err != nil {
		klog.FromContext(ctx).Info("The kubelet does not tell which GPUs are in use; what was known before counts for a minute", "err", err)
		return known
	}
	u.Observe(asked, allocations)
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.listed
}

// check returns an error if devices are in use in the other way: GPUs in shares,
// or shares of GPUs that are in use as a whole.
func (u *Usage) check(ctx context.Context, ids []string) error {
	if u == nil {
		return nil
	}
	if known, lately := u.known(); lately && known.conflict(ids) == nil {
		return nil
	}
	return u.ask(ctx).conflict(ids)
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

// conflict says why devices can't be given to anybody.
func (i inUse) conflict(ids []string) error {
	for _, id := range ids {
		gpu, isShare := share.Of(id)
		switch of := i[gpu]; {
		case isShare && len(of.whole) > 0:
			return status.Errorf(codes.FailedPrecondition, "GPU %s is in use as a whole by %s, so nobody can have a share of it",
				gpu, strings.Join(of.whole, " and "))
		case !isShare && len(of.shares) > 0:
			return status.Errorf(codes.FailedPrecondition, "shares of GPU %s are in use by %s, so nobody can have it as a whole",
				gpu, strings.Join(of.shares, " and "))
		}
	}
	return nil
}
