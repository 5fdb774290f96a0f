// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a whole Kubernetes on the loopback interface, one process
// per component, and removes it again without a trace.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"falldio.github.io/gpu-controller/localcluster/directory"
	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/localcluster/process"
)

const (
	// stopLimit is how long components may take to shut down. Their data is
	// deleted anyway.
	stopLimit = time.Second
	// tailLines is how much of a failed component's log is shown.
	tailLines = 30
)

// errJanitorDied stops the cluster, which could no longer be cleaned up after a SIGKILL.
var errJanitorDied = errors.New("the janitor process died")

// stopOrder is the order in which the components stop: clients before the servers
// whose absence they would log.
var stopOrder = [][]string{
	{names.Dashboard, names.GPUController, names.NodeAgent, names.KWOK, names.GPUScheduler, names.Scheduler, names.ControllerManager},
	{names.APIServer},
	{names.Etcd},
}

// Up runs a cluster until ctx is done. It returns nil if the cluster had become
// ready by then.
func Up(ctx context.Context, options Options) error {
	if err := options.validate(); err != nil {
		return err
	}
	release, err := options.release(ctx)
	if err != nil {
		return err
	}
	lock, err := directory.Claim(ctx, options.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	ports, err := freePorts(ctx)
	if err != nil {
		return errors.Join(err, directory.Remove(options.Dir))
	}
	group, err := startGroup(options, lock)
	if err != nil {
		return errors.Join(err, directory.Remove(options.Dir))
	}
	return newCluster(options, release, ports, group).run(ctx)
}

func startGroup(options Options, lock *os.File) (*process.Group, error) {
	return process.StartGroup(process.GroupConfig{
		Path: options.Executable,
		Args: []string{"janitor", options.Dir},
		Lock: lock,
		Keep: options.Keep,
		Log:  os.Stderr,
	})
}

// run starts the cluster, keeps it running, and stops it.
func (c *cluster) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		<-c.group.Done()
		cancel(errJanitorDied)
	}()

	err := c.keep(ctx)
	if errors.Is(context.Cause(ctx), errJanitorDied) {
		err = errJanitorDied
	}
	c.printFailureLog(err)
	return errors.Join(err, c.stop())
}

// keep runs the cluster until it is to stop. It returns nil if the cluster had
// become ready.
func (c *cluster) keep(ctx context.Context) error {
	if err := c.start(ctx); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped before the cluster was ready: %w", context.Cause(ctx))
		}
		return err
	}
	go c.heal(ctx)
	go c.prodPods(ctx)
	if c.options.AfterReady != nil {
		if err := c.options.AfterReady(ctx, c.running()); err != nil {
			if errors.Is(err, ErrStop) {
				return nil
			}
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// printFailureLog prints the end of the log of the component that failed to start.
func (c *cluster) printFailureLog(err error) {
	var failure *startError
	if !errors.As(err, &failure) {
		return
	}
	tail, tailErr := process.Tail(failure.log, tailLines)
	if tailErr != nil {
		c.console.trouble("the log of %s cannot be shown: %v", failure.component, tailErr)
		return
	}
	c.console.printf("! %s failed. The end of its log:\n%s\n", failure.component, tail)
}

// stop stops all processes and, unless it is to be kept, deletes the directory.
func (c *cluster) stop() error {
	c.console.printf("Stopping\n")
	for _, tier := range stopOrder {
		c.supervisor.Stop(stopLimit, tier...)
	}
	select {
	case <-c.group.Done(): // the janitor is dead, so clean up here
		if c.options.Keep {
			return nil
		}
		return directory.Remove(c.options.Dir)
	default:
		c.group.Close()
		return nil
	}
}
