// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// Usage tracks which GPUs are in use, whole, in shares, or as a resource that somebody else
// gives out, such as nvidia.com/gpu. To the kubelet these are unrelated resources, so without
// it a GPU could be allocated as several of them.
//
// The kubelet allocates devices to one container after another, and knows all that it
// allocated before, by whichever plugin. So it is queried before each allocation: what
// somebody else has given out just now counts, and what a container no longer has blocks
// nobody. It does not list
// init containers that end before the others start; those of another Pod go unnoticed
// unless its other containers have the same GPU.
type Usage struct {
	kubelet podresources.Lister
	clock   clock.Clock
	// own are the resources that the plugins of this process allocate, besides those of slices.
	own []string

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
	// queryRetry is how long after a failed query the next one follows.
	queryRetry = 100 * time.Millisecond
)

type recentAllocation struct {
	ids []string
	at  time.Time
}

// inUse has the users of GPUs by the GPUs' UUIDs.
type inUse map[string]users

// users describes the containers that have a GPU, for messages. foreign are those that have
// it as a resource of somebody else, whole or in part.
type users struct{ whole, shares, foreign []string }

// NewUsage returns a Usage without any allocations. own are the resources that this process
// allocates besides those of MIG slices; who has a GPU as another one has it from somebody else.
func NewUsage(kubelet podresources.Lister, c clock.Clock, own ...string) *Usage {
	return &Usage{kubelet: kubelet, clock: c, own: own}
}

// Observe takes over a list of the kubelet, with the time at which it was requested.
func (u *Usage) Observe(asked time.Time, allocations []podresources.Allocation) {
	listed := inUse{}
	for i := range allocations {
		a := &allocations[i]
		user := fmt.Sprintf("container %s of Pod %s/%s", a.Container, a.Namespace, a.Pod)
		if slices.Contains(u.own, a.Resource) || podresources.IsOwnMIG(a.Resource) {
			listed.add(a.DeviceIDs, user)
		} else {
			listed.addForeign(a.DeviceIDs, user+" as "+a.Resource)
		}
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
			used[gpu] = users{whole: slices.Clip(listed.whole), shares: slices.Clip(listed.shares), foreign: listed.foreign}
		}
	}
	for _, r := range u.recent {
		if now.Sub(r.at) <= maxAge {
			used.add(r.ids, "a container that was just given devices")
		}
	}
	return used, fresh
}

// query returns what the kubelet lists now, or what is cached if it does not answer. If that is
// too old to rely on, the kubelet is asked again for a moment, since the connection may only just
// be coming back after its restart; then there is an error as well.
func (u *Usage) query(ctx context.Context) (inUse, error) {
	used, fresh := u.cached()
	if u == nil {
		return used, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	failure := errUnlisted
	_ = wait.PollUntilContextCancel(ctx, queryRetry, true, func(ctx context.Context) (bool, error) { // failure says why it ended
		asked := u.clock.Now()
		allocations, err := u.kubelet.List(ctx)
		if err == nil {
			u.Observe(asked, allocations)
		}
		failure = err
		return err == nil || fresh, nil
	})
	switch {
	case failure == nil:
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.listed, nil
	case fresh:
		klog.FromContext(ctx).Info("The kubelet does not list the GPUs in use; its last list counts for a minute", "err", failure)
		return used, nil
	default:
		return used, failure
	}
}

// Known returns why it is unknown which GPUs are in use, or nil: then nothing is allocated.
func (u *Usage) Known() error {
	if _, fresh := u.cached(); !fresh {
		return errUnlisted
	}
	return nil
}

var errUnlisted = errors.New("the kubelet has not listed the GPUs in use for more than a minute, see --kubelet-directory")

// check returns an error if devices are in use as another resource: GPUs in shares, shares
// of GPUs that are in use as a whole, slices of such GPUs (gpuOf has the slices' GPUs), or any
// that somebody else has given out. It also does if nobody can say whether they are.
func (u *Usage) check(ctx context.Context, ids []string, gpuOf map[string]string) error {
	if u == nil {
		return nil
	}
	used, err := u.query(ctx)
	if err != nil {
		return status.Errorf(codes.Unavailable, "whether the devices are in use is unknown, so they can't be allocated: %v; see nodeagent --kubelet-directory", err)
	}
	return used.conflict(ids, gpuOf)
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

// claimed reports whether a GPU is in use as another resource than that which allocates it
// as a whole, or else in shares.
func (i inUse) claimed(gpu string, whole bool) bool {
	of := i[gpu]
	if whole {
		return len(of.shares) > 0 || len(of.foreign) > 0
	}
	return len(of.whole) > 0 || len(of.foreign) > 0
}

func (i inUse) addForeign(ids []string, user string) {
	for _, gpu := range share.GPUs(ids) {
		of := i[gpu]
		of.foreign = append(of.foreign, user)
		i[gpu] = of
	}
}

// any reports whether anybody has a GPU, in whichever way.
func (i inUse) any(gpu string) bool {
	of := i[gpu]
	return len(of.whole)+len(of.shares)+len(of.foreign) > 0
}

// conflict returns why devices can't be allocated. gpuOf has the GPUs of those that are slices.
func (i inUse) conflict(ids []string, gpuOf map[string]string) error {
	for _, id := range ids {
		gpu, isShare := share.Of(id)
		switch of := i[gpu]; {
		case i.any(gpuOf[id]):
			of = i[gpuOf[id]]
			return status.Errorf(codes.FailedPrecondition, "GPU %s is in use by %s, so its slice %s can't be allocated",
				gpuOf[id], strings.Join(slices.Concat(of.whole, of.shares, of.foreign), " and "), id)
		case len(of.foreign) > 0:
			return status.Errorf(codes.FailedPrecondition, "GPU %s is in use by %s: somebody else gives out the GPUs of this node, too; let only one do so, see nodeagent --mode",
				gpu, strings.Join(of.foreign, " and "))
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
