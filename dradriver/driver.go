// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/dradriver/devices"
	"falldio.github.io/gpu-controller/dradriver/prepared"
	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const driverName = v1.DRADriver

// driver is what the kubelet calls for the claims of Pods. Every call may be repeated.
type driver struct {
	node  string
	clock clock.WithTicker
	gpus  gpus
	// described reports whether the container runtime knows the GPU with this UUID.
	described func(uuid string) bool
	files     prepared.Files
	// checkOthers returns an error if somebody else has given away any of these GPUs.
	checkOthers func(ctx context.Context, uuids []string) error
	// exists reports whether a claim is still allocated as it was when it was prepared.
	exists func(ctx context.Context, claim prepared.Claim) (bool, error)
	// fail ends the process.
	fail func(error)

	// mu keeps what is written for claims in line with the store.
	mu    sync.Mutex
	store *prepared.Store
	// goneSince is when claims that are prepared were first found to be gone.
	goneSince map[types.UID]time.Time
	failures  atomic.Uint64
}

// gpus is the part of monitor.Monitor that is needed here.
type gpus interface {
	Snapshot() *gpu.Snapshot
	Changed() <-chan struct{}
}

var _ kubeletplugin.DRAPlugin = &driver{}

// PrepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, claim := range claims {
		ready, err := d.prepare(ctx, claim)
		if err != nil {
			d.failures.Add(1)
			klog.FromContext(ctx).Error(err, "A claim can't be prepared; the kubelet will try again", "claim", klog.KObj(claim))
		}
		results[claim.UID] = kubeletplugin.PrepareResult{Err: err, Devices: d.result(ready, err)}
	}
	return results, nil
}

// prepare makes a claim's GPUs ready for its containers. First it is noted which they are: were
// the driver killed in between, the next one would write the rest.
func (d *driver) prepare(ctx context.Context, claim *resourceapi.ResourceClaim) (prepared.Claim, error) {
	wanted, err := prepared.Of(claim, d.node)
	if err != nil {
		return wanted, err
	}
	// Where a claim has been prepared its Pod may run, whatever has become of the GPUs.
	if before, found := d.store.Get(claim.UID); found && before.Same(wanted) {
		return before, d.files.Write(before)
	}
	if err := d.find(&wanted); err != nil {
		return wanted, err
	}
	if err := d.checkFree(ctx, wanted); err != nil {
		return wanted, err
	}
	if err := d.store.Put(wanted); err != nil {
		return wanted, err
	}
	klog.FromContext(ctx).Info("Prepared a claim", "claim", wanted.String(), "gpus", uuidsOf(wanted))
	return wanted, d.files.Write(wanted)
}

// find sets which GPUs a claim's devices are. One that is not healthy is given away all the
// same: the claim may tolerate that, and its Pod will see.
func (d *driver) find(claim *prepared.Claim) error {
	snapshot := d.gpus.Snapshot()
	if snapshot.Taken.IsZero() {
		return errors.New("the GPUs of the node have not been read yet")
	}
	present := make(map[string]*gpu.Device, len(snapshot.Devices))
	for i := range snapshot.Devices {
		present[devices.Name(snapshot.Devices[i].UUID)] = &snapshot.Devices[i]
	}
	for i := range claim.Devices {
		device := &claim.Devices[i]
		card := present[device.Name]
		switch {
		case card == nil:
			return fmt.Errorf("GPU %s is no longer there: delete the Pod, so that it gets another one", device.Name)
		case card.MIG:
			return fmt.Errorf("GPU %s is in MIG mode and can't be used as a whole: delete the Pod, so that it gets another one", card.UUID)
		case !d.described(card.UUID):
			return fmt.Errorf("GPU %s is not described to the container runtime: see the log of dradriver on node %s", card.UUID, d.node)
		}
		device.UUID = card.UUID
	}
	return nil
}

// checkFree returns an error if somebody else still has GPUs of a claim.
func (d *driver) checkFree(ctx context.Context, claim prepared.Claim) error {
	for {
		conflict := prepared.FindConflict(claim, d.store.All())
		if conflict == nil {
			break
		}
		forgotten, err := d.forgetGone(ctx, conflict.With)
		if err != nil {
			return err
		}
		if forgotten == 0 {
			return conflict
		}
	}
	return d.checkOthers(ctx, uuidsOf(claim))
}

// releaseWait is how long a claim that is gone keeps its GPUs if the kubelet does not release it.
// Where a Pod was deleted by force, its claim is gone before its containers have ended. The
// kubelet looks for claims that it has to release every minute.
const releaseWait = 2 * time.Minute

// forgetGone releases those of the claims that no longer exist, or not in this allocation, for so
// long that the kubelet must have forgotten them. It returns how many.
func (d *driver) forgetGone(ctx context.Context, claims []prepared.Claim) (forgotten int, err error) {
	for _, claim := range claims {
		exists, err := d.exists(ctx, claim)
		if err != nil {
			return forgotten, fmt.Errorf("whether ResourceClaim %s still has its GPUs is unknown: %w", claim, err)
		}
		if exists {
			delete(d.goneSince, claim.UID)
		}
		if exists || !d.longGone(claim.UID) {
			continue
		}
		klog.FromContext(ctx).Info("A claim is gone and the kubelet has not released it; it is now", "claim", claim.String())
		if err := d.release(claim.UID); err != nil {
			return forgotten, err
		}
		forgotten++
	}
	return forgotten, nil
}

// longGone notes that a claim is gone, and reports whether it has been for long.
func (d *driver) longGone(uid types.UID) bool {
	now := d.clock.Now()
	since, noted := d.goneSince[uid]
	if !noted {
		d.goneSince[uid] = now
		return false
	}
	return now.Sub(since) >= releaseWait
}

// forgetAllGone is forgetGone for all prepared claims.
func (d *driver) forgetAllGone(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.forgetGone(ctx, d.store.All())
	return err
}

// uuidsOf returns the GPUs that a claim uses.
func uuidsOf(claim prepared.Claim) []string {
	var uuids []string
	for _, device := range claim.Devices {
		if !device.Admin {
			uuids = append(uuids, device.UUID)
		}
	}
	return uuids
}

// result returns the devices of a prepared claim for the kubelet.
func (d *driver) result(claim prepared.Claim, err error) []kubeletplugin.Device {
	if err != nil {
		return nil
	}
	list := make([]kubeletplugin.Device, 0, len(claim.Devices))
	for place := range claim.Devices {
		device := &claim.Devices[place]
		list = append(list, kubeletplugin.Device{
			Requests: []string{device.Request}, PoolName: d.node, DeviceName: device.Name, ShareID: device.ShareID,
			CDIDeviceIDs: claim.CDIDevices(place),
		})
	}
	return list
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *driver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	results := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		err := d.release(claim.UID)
		if err != nil {
			klog.FromContext(ctx).Error(err, "A claim can't be released; the kubelet will try again", "claim", claim.NamespacedName.String())
		} else {
			klog.FromContext(ctx).Info("Released a claim", "claim", claim.NamespacedName.String())
		}
		results[claim.UID] = err
	}
	return results, nil
}

// release undoes what prepare has done.
func (d *driver) release(uid types.UID) error {
	delete(d.goneSince, uid)
	return errors.Join(d.files.Remove(uid), d.store.Delete(uid))
}

// reconcile brings what is written for claims in line with the prepared ones.
func (d *driver) reconcile() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files.Reconcile(d.store.All())
}

// HandleError implements kubeletplugin.DRAPlugin.
func (d *driver) HandleError(ctx context.Context, err error, message string) {
	runtime.HandleErrorWithContext(ctx, err, message)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.fail(fmt.Errorf("%s: %w", message, err))
	}
}
