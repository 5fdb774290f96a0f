// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// lagging is kube-scheduler's view of claims, which shows a change some time after the informer.
type lagging struct {
	fwk.ResourceClaimTracker
	shown map[string]*resourcev1.ResourceClaim
	late  []func()
	// pending are the allocations of which the API server is not told yet.
	pending map[types.UID]*resourcev1.ResourceClaim
}

func (l *lagging) Get(namespace, name string) (*resourcev1.ResourceClaim, error) {
	if claim := l.shown[claimKey(namespace, name)]; claim != nil {
		return claim, nil
	}
	return nil, errors.New("not found")
}

func (l *lagging) List() (list []*resourcev1.ResourceClaim, err error) {
	for _, claim := range l.shown {
		list = append(list, claim)
	}
	return list, nil
}

func (l *lagging) catchUp() {
	for _, show := range l.late {
		show()
	}
	l.late = nil
}

// cluster is a cluster whose drivers and claims change at random.
type cluster struct {
	*lagging
	*told
	random  *rand.Rand
	now     time.Time
	slices  map[string]*resourcev1.ResourceSlice
	claims  map[string]*resourcev1.ResourceClaim
	changes int
}

// change makes one change, of which the Tracker is told.
func (c *cluster) change() {
	c.changes++
	name := strconv.Itoa(c.random.IntN(8))
	switch c.random.IntN(8) {
	case 0:
		c.SliceChanged(c.slices[name], nil, c.now)
		delete(c.slices, name)
	case 1, 2:
		next := c.slice(name)
		c.SliceChanged(c.slices[name], next, c.now)
		c.slices[name] = next
	case 3:
		claim := c.claim(name)
		claim.UID = types.UID(fmt.Sprint("pending-", name))
		c.pending[claim.UID] = claim
		c.Allocated(claim)
	case 4:
		delete(c.pending, types.UID(fmt.Sprint("pending-", name)))
		c.Settled(types.UID(fmt.Sprint("pending-", name)))
	case 5:
		c.set(name, nil)
	default:
		c.set(name, c.claim(name))
	}
}

// set changes a claim. The informer tells of it at once.
func (c *cluster) set(name string, next *resourcev1.ResourceClaim) {
	before := c.claims[name]
	if next == nil {
		delete(c.claims, name)
	} else {
		c.claims[name] = next
	}
	c.late = append(c.late, func() {
		if next == nil {
			delete(c.shown, claimKey("default", name))
		} else {
			c.shown[claimKey("default", name)] = next
		}
	})
	if before != nil || next != nil {
		c.ClaimChanged(before, next, c.now)
	}
}

// slice publishes some devices of a node, under names of which other slices of the pool have some as well.
func (c *cluster) slice(name string) *resourcev1.ResourceSlice {
	slice := sliceOf(name, "node-"+strconv.Itoa(c.random.IntN(3)))
	slice.Spec.Pool.Name = "pool"
	for i := range c.random.IntN(4) {
		uuid := fmt.Sprint("GPU-", c.random.IntN(10))
		device := deviceOf(fmt.Sprint("d", (i*3+c.random.IntN(4))%10), map[string]string{"uuid": uuid})
		if c.random.IntN(4) == 0 {
			device = deviceOf(device.Name, map[string]string{"uuid": "MIG-of-" + uuid, "parentUUID": uuid})
		}
		if !slices.ContainsFunc(slice.Spec.Devices, func(other resourcev1.Device) bool { return other.Name == device.Name }) {
			slice.Spec.Devices = append(slice.Spec.Devices, device)
		}
	}
	return slice
}

func (c *cluster) claim(name string) *resourcev1.ResourceClaim {
	var devices []string
	for range c.random.IntN(3) {
		devices = append(devices, fmt.Sprint("d", c.random.IntN(10)))
	}
	claim := claimOf(name, "pool", devices...)
	claim.ResourceVersion = strconv.Itoa(c.changes)
	for range c.random.IntN(3) {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", UID: types.UID(strconv.Itoa(c.random.IntN(4)))})
	}
	if claim.Status.Allocation != nil && c.random.IntN(4) == 0 {
		result := &claim.Status.Allocation.Devices.Results[0]
		if result.AdminAccess = new(true); c.random.IntN(2) == 0 {
			result.AdminAccess, result.ShareID = nil, new(types.UID("share"))
			result.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"percent": resource.MustParse("50")}
		}
	}
	return claim
}

// anew returns what is held as kube-scheduler's view shows it, found by looking at everything.
func (c *cluster) anew() (nodes map[string][]string, pods map[types.UID][]string) {
	nodes, pods = map[string][]string{}, map[types.UID][]string{}
	add := func(claim *resourcev1.ResourceClaim, pod types.UID) {
		if claim.Status.Allocation == nil {
			return
		}
		for i := range claim.Status.Allocation.Devices.Results {
			result := &claim.Status.Allocation.Devices.Results[i]
			gpus := c.published.of(structured.MakeDeviceID(result.Driver, result.Pool, result.Device))
			if result.AdminAccess != nil {
				continue
			}
			for _, one := range gpus {
				nodes[one.node] = append(nodes[one.node], one.UUID)
			}
			if pod != "" && len(gpus) == 1 && !gpus[0].part && result.ShareID == nil {
				pods[pod] = append(pods[pod], gpus[0].UUID)
			}
		}
	}
	for _, claim := range c.shown {
		pod, only := userOf(claim)
		if !only {
			pod = ""
		}
		add(claim, pod)
	}
	for _, claim := range c.pending {
		add(claim, "")
	}
	for node := range nodes {
		slices.Sort(nodes[node])
		nodes[node] = slices.Compact(nodes[node])
	}
	for pod := range pods {
		slices.Sort(pods[pod])
	}
	return nodes, pods
}

func TestWhatIsToldOfClaimsIsWhatALookAtAllOfThemShows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		c := &cluster{
			lagging: &lagging{shown: map[string]*resourcev1.ResourceClaim{}, pending: map[types.UID]*resourcev1.ResourceClaim{}}, told: newTold(),
			random: rand.New(rand.NewPCG(seed, 2)), now: beginning, slices: map[string]*resourcev1.ResourceSlice{}, claims: map[string]*resourcev1.ResourceClaim{},
		}
		c.observed, c.looked = true, beginning.AddDate(1, 0, 0) // no look at all claims helps
		for step := range 200 {
			for range 1 + c.random.IntN(3) {
				c.change()
			}
			c.ask(t, c.lagging, c.now)
			if c.random.IntN(2) == 0 {
				c.now = c.now.Add(settle / 2) // the view lags for no longer than that
			}
			c.catchUp()
			c.ask(t, c.lagging, c.now)
			nodes, pods := c.anew()
			if diff := cmp.Diff(nodes, c.nodes); diff != "" {
				t.Fatalf("seed %d, step %d: on nodes (- anew, + told):\n%s", seed, step, diff)
			}
			if diff := cmp.Diff(pods, c.pods); diff != "" {
				t.Fatalf("seed %d, step %d: of Pods (- anew, + told):\n%s", seed, step, diff)
			}
			checkIndexes(t, c.Tracker)
		}
	}
}

// checkIndexes fails the test if something is kept that is of no use.
func checkIndexes(t *testing.T, tracker *Tracker) {
	t.Helper()
	for id := range tracker.published.gone {
		if !tracker.holders.holds(id) {
			t.Fatalf("device %s is kept, which is gone and held by nobody", id)
		}
	}
	for node, ids := range tracker.published.nodes {
		for id := range ids {
			if len(tracker.published.of(id)) == 0 {
				t.Fatalf("device %s is kept for node %s", id, node)
			}
		}
	}
}
