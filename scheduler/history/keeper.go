// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// requestLimit bounds a request to the API server.
	requestLimit = 5 * time.Second
	// lastLimit bounds the last write: the process is about to end.
	lastLimit = 3 * time.Second
	// retryPeriod is how often it is tried to read, if that fails and the period is longer.
	retryPeriod = 30 * time.Second
)

// Leader reports whether this process may act for the scheduler.
type Leader interface {
	// Acquired returns a channel that is closed when this process becomes the leader.
	Acquired() <-chan struct{}
	// Leads reports whether it is the leader at this moment.
	Leads() bool
}

// Place is where a history is kept.
type Place struct {
	Namespace, Name string
	// Period is how often it is written at most.
	Period time.Duration
}

// Keeper keeps a history. It is safe for concurrent use.
type Keeper struct {
	period   time.Duration
	clock    clock.Clock
	leader   Leader
	sections []Section

	mu    sync.Mutex
	store store
	// restored is true once it is known what was kept before, and kept is what is.
	restored bool
	kept     map[string][]byte
}

// NewKeeper returns a Keeper of some sections, which keeps nothing before it runs.
func NewKeeper(kube kubernetes.Interface, clock clock.Clock, leader Leader, place Place, sections []Section) *Keeper {
	return &Keeper{
		period: place.Period, clock: clock, leader: leader, sections: sections,
		store: store{kube: kube, namespace: place.Namespace, name: place.Name},
	}
}

// Run restores the history when this process has become the leader, and writes it from time to time until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-k.leader.Acquired():
	}
	for {
		restored, err := k.step(ctx)
		pause := k.period
		if !restored {
			pause = min(pause, retryPeriod)
		}
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "What was learned from the past can't be kept; trying again", "after", pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-k.clock.After(pause):
		}
	}
}

// Close writes the history for the last time, if this process leads. ctx need not live any more.
func (k *Keeper) Close(ctx context.Context) {
	if !k.leader.Leads() {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLimit)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.restored {
		return // what is kept may be better than what is known
	}
	if err := k.write(last); err != nil {
		klog.FromContext(ctx).Error(err, "What was learned since it was kept last is lost")
	}
}

// step restores the history or, once that is done, writes it. restored reports whether it is done.
func (k *Keeper) step(ctx context.Context) (restored bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.restored:
		err = k.restore(ctx)
	case k.leader.Leads():
		err = k.write(ctx)
	}
	return k.restored, err
}

// restore reads what was kept. Sections that can't be read are left out.
func (k *Keeper) restore(ctx context.Context) error {
	kept, err := k.store.read(ctx)
	if err != nil {
		return err
	}
	logger, sizes := klog.FromContext(ctx), map[string]int{}
	for i := range k.sections {
		section := &k.sections[i]
		packed, found := kept[section.Name]
		if !found {
			continue
		}
		if err := section.unpack(packed); err != nil {
			logger.Error(err, "A part of what was learned from the past can't be read, and is learned anew", "configMap", k.store.name)
			continue
		}
		sizes[section.Name] = len(packed)
	}
	k.restored, k.kept = true, kept
	logger.Info("Restored what was learned from the past", "configMap", k.store.name, "bytes", sizes)
	return nil
}

// write writes the sections if they have changed. One that can't be encoded stays as it is.
func (k *Keeper) write(ctx context.Context) error {
	sections := map[string][]byte{}
	var errs []error
	for i := range k.sections {
		name := k.sections[i].Name
		packed, err := k.sections[i].pack()
		if err != nil {
			errs = append(errs, err)
			if packed = k.kept[name]; packed == nil {
				continue
			}
		}
		sections[name] = packed
	}
	if maps.EqualFunc(sections, k.kept, bytes.Equal) {
		return errors.Join(errs...)
	}
	if err := k.store.write(ctx, sections, k.leader.Leads); err != nil {
		return errors.Join(append(errs, err)...)
	}
	k.kept = sections
	return errors.Join(errs...)
}
