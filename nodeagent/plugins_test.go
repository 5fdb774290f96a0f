// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
)

func TestReadinessHasOneReason(t *testing.T) {
	t.Parallel()
	pool := deviceplugin.NewPool()
	if err := pool.Set(deviceplugin.Counted("gpu", 1), nil); err != nil {
		t.Fatal(err)
	}
	plugin, err := deviceplugin.New(deviceplugin.Config{Resource: "falldio.com/gpu", Pool: pool, Dir: t.TempDir(), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	p := &plugins{all: []*deviceplugin.Plugin{plugin}, injection: &injection{}}
	if err := p.ready(); err == nil || !strings.HasSuffix(err.Error(), "kubelet: the kubelet has not been reached yet") {
		t.Errorf("before it runs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		plugin.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	err = wait.PollUntilContextTimeout(ctx, time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		return plugin.Status().LastError != nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ready(); err == nil || !strings.HasSuffix(err.Error(), "kubelet: "+plugin.Status().LastError.Error()) {
		t.Errorf("without a kubelet: %v", err)
	}
}
