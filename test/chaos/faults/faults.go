// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults injects what a schedule says, and mends it again.
package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/test/chaos/check"
	"falldio.github.io/gpu-controller/test/chaos/history"
	"falldio.github.io/gpu-controller/test/chaos/record"
	"falldio.github.io/gpu-controller/test/chaos/schedule"
	"falldio.github.io/gpu-controller/test/cluster"
)

// Injector injects faults into a cluster. It is safe for concurrent use.
type Injector struct {
	Cluster *cluster.Cluster
	Kube    kubernetes.Interface
	Tasks   clientset.Interface
	Dynamic dynamic.Interface
	Log     *record.Log
	// Proxies are those of our processes, by name.
	Proxies map[string]*Proxy
	// Disk is a small file system that can be filled; empty for none.
	Disk string
	// Seed is that of the flood.
	Seed uint64
	// Setup creates a namespace again, with what belongs to it.
	Setup func(ctx context.Context, namespace string) error

	mu     sync.Mutex
	number int
	counts map[string]int
	// broken are the GPUs that are broken, by the number of the fault.
	broken map[int]string
}

// mending is how long an attempt to mend something may take. All of them are repeated.
const (
	mending    = 2 * time.Minute
	retryAfter = 300 * time.Millisecond
)

// Inject injects a fault, waits for as long as it lasts or until ctx ends, and mends it. It returns an
// error if it can't be mended: then the rest of the campaign means nothing.
func (i *Injector) Inject(ctx context.Context, fault *schedule.Fault) error {
	begin := i.begin(fault)
	mend, err := i.start(ctx, fault, begin.Number)
	if err == nil {
		pause(ctx, fault.For)
	} else {
		begin.Detail += ": " + err.Error()
	}
	var mended error
	if mend != nil {
		mended = insist(context.WithoutCancel(ctx), mend)
	}
	end := begin
	end.Ends = true
	i.Log.Append(history.Entry{Fault: &end})
	i.count(fault, err)
	if mended != nil {
		return fmt.Errorf("mending %s: %w", fault, mended)
	}
	return nil
}

func (i *Injector) begin(fault *schedule.Fault) history.Fault {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.number++
	entry := history.Fault{Number: i.number, Kind: fault.Kind, Target: fault.Target, Detail: fault.Detail()}
	i.Log.Append(history.Entry{Fault: &entry})
	return entry
}

func (i *Injector) count(fault *schedule.Fault, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.counts == nil {
		i.counts = map[string]int{}
	}
	name := fault.Kind
	switch fault.Kind {
	case check.FaultKill, check.FaultPause, check.FaultSkew:
		name += " " + fault.Target
	case check.FaultResponses:
		name += ": " + fault.Way
	}
	if err != nil {
		name += " (failed)"
	}
	i.counts[name]++
}

// Counts returns how many faults of each kind were injected.
func (i *Injector) Counts() map[string]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.counts)
}

// action mends something.
type action func(context.Context) error

// start injects a fault, which has this number in the history, and returns what mends it, if that is
// needed. It may be so even if it fails.
func (i *Injector) start(ctx context.Context, fault *schedule.Fault, number int) (mend action, err error) {
	switch fault.Kind {
	case check.FaultKill:
		return i.waitFor(fault.Target), i.signal(fault.Target, syscall.SIGKILL)
	case check.FaultPause:
		return i.stop(fault.Target)
	case check.FaultResponses:
		return i.disturb(fault.Target, fault.Way)
	case check.FaultSkew:
		return i.skew(fault)
	case check.FaultDisk:
		return i.fillDisk()
	case check.FaultGPU:
		return i.breakGPU(fault, number)
	case check.FaultCRD:
		return i.deleteCRD(ctx, fault.Target)
	case check.FaultNamespace:
		return i.deleteNamespace(ctx, fault.Target)
	case check.FaultFlood:
		return nil, i.flood(ctx, fault.Number)
	default:
		return i.disturbNode(ctx, fault)
	}
}

// insist repeats an action until it succeeds: whatever is needed for it may be down as well.
func insist(ctx context.Context, do action) error {
	ctx, cancel := context.WithTimeout(ctx, mending)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause(ctx, retryAfter)
	}
}

func (i *Injector) signal(process string, signal syscall.Signal) error {
	pid, err := i.Cluster.PID(process)
	if err != nil {
		return err // it is between two runs
	}
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// waitFor returns an action that succeeds when a process runs.
func (i *Injector) waitFor(process string) action {
	return func(context.Context) error {
		_, err := i.Cluster.PID(process)
		return err
	}
}

func (i *Injector) stop(process string) (action, error) {
	pid, err := i.Cluster.PID(process)
	if err != nil {
		return nil, err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return nil
	}, nil
}

func (i *Injector) disturb(process, way string) (action, error) {
	proxy := i.Proxies[process]
	if proxy == nil {
		return nil, fmt.Errorf("%s has no proxy", process)
	}
	proxy.Disturb(way)
	return func(context.Context) error {
		proxy.Disturb("")
		return nil
	}, nil
}

// skew starts a process again with a clock that is wrong, and then once more with the right one.
func (i *Injector) skew(fault *schedule.Fault) (action, error) {
	proxy := i.Proxies[fault.Target]
	if proxy == nil {
		return nil, fmt.Errorf("%s has no proxy", fault.Target)
	}
	proxy.Skew(fault.Skew)
	mend := func(context.Context) error {
		proxy.Skew(0)
		// The second kill is a fault of its own in the history: the first is long ago.
		entry := i.begin(&schedule.Fault{Kind: check.FaultKill, Target: fault.Target})
		entry.Ends = true
		defer i.Log.Append(history.Entry{Fault: &entry})
		return i.signal(fault.Target, syscall.SIGKILL)
	}
	return mend, i.signal(fault.Target, syscall.SIGKILL)
}

// fillDisk fills the disk, up to the last byte.
func (i *Injector) fillDisk() (action, error) {
	if i.Disk == "" {
		return nil, errors.New("no file system could be mounted")
	}
	path := filepath.Join(i.Disk, "filler")
	mend := func(context.Context) error { return os.Remove(path) }
	file, err := os.Create(path) //nolint:gosec // the campaign's own
	if err != nil {
		return nil, err
	}
	block := make([]byte, 1<<16)
	for err == nil {
		_, err = file.Write(block)
	}
	_ = file.Close() // it can't write any more
	if !errors.Is(err, syscall.ENOSPC) {
		return mend, err
	}
	return mend, nil
}
