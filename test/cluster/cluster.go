// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs localcluster as a process, for tests and benchmarks.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// startLimit is longer than any cluster takes to become ready: localcluster ends after its
	// own --start-timeout.
	startLimit = 15 * time.Minute
	stopLimit  = time.Minute
	pollEvery  = 50 * time.Millisecond
)

// Cluster is a local cluster that is ready.
type Cluster struct {
	// Dir is the cluster's directory.
	Dir     string
	process *exec.Cmd
	// ended is closed when the process has ended; err is then its error.
	ended chan struct{}
	err   error
}

// Start runs "localcluster up" without a controller, with further arguments, and
// returns when the cluster is ready. The process is killed when ctx ends.
func Start(ctx context.Context, localcluster, dir string, output io.Writer, args ...string) (*Cluster, error) {
	programs, err := ProgramsFromEnvironment()
	if err != nil {
		return nil, err
	}
	args = slices.Concat([]string{"up", "--dir=" + dir, "--controller=none", "--dashboard=none"}, programs, args)
	command := exec.CommandContext(ctx, localcluster, args...)
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, process: command, ended: make(chan struct{})}
	go func() {
		c.err = command.Wait()
		close(c.ended)
	}()
	if err := c.waitUntilReady(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// waitUntilReady waits for the kubeconfig, which appears when the cluster is
// ready.
func (c *Cluster) waitUntilReady() error {
	deadline := time.After(startLimit)
	for {
		if _, err := os.Stat(c.Kubeconfig()); err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("localcluster ended before the cluster was ready: %w", c.err)
		case <-deadline:
			return fmt.Errorf("the cluster was not ready after %v", startLimit)
		case <-time.After(pollEvery):
		}
	}
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// Config returns a client configuration with all rights and no rate limit.
func (c *Cluster) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// Stop stops the cluster and returns its process's error.
func (c *Cluster) Stop() error {
	if err := c.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.ended:
		return c.err
	case <-time.After(stopLimit):
		_ = c.process.Process.Kill()
		return fmt.Errorf("localcluster did not stop within %v", stopLimit)
	}
}

// Kill kills localcluster, not its components, with SIGKILL.
func (c *Cluster) Kill() error { return c.signal(syscall.SIGKILL) }

func (c *Cluster) signal(signal os.Signal) error {
	if err := c.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
