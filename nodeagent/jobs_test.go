// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

func TestAJobThatPanicsIsRunAgain(t *testing.T) {
	t.Parallel()
	all := newJobs(t.Context())
	runs := 0
	all.add(cron.Every(time.Hour), func(context.Context) {
		runs++
		panic("driver")
	})
	for range 3 {
		all.all[0].Run()
	}
	if runs != 3 {
		t.Errorf("it was run %d times, want 3", runs)
	}
}

func TestAJobThatStillRunsIsNotStartedTwice(t *testing.T) {
	t.Parallel()
	all := newJobs(t.Context())
	started, end := make(chan struct{}), make(chan struct{})
	all.add(cron.Every(time.Hour), func(context.Context) {
		started <- struct{}{} // a second run would wait here forever
		<-end
	})
	var first sync.WaitGroup
	first.Go(all.all[0].Run)
	<-started
	all.all[0].Run()
	close(end)
	first.Wait()
}
