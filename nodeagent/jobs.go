// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/robfig/cron/v3"
	"k8s.io/klog/v2"
)

// jobs runs what is to be done again and again. A job that still runs when its
// time has come is not started twice; one that panics does not end the others and
// is run again.
type jobs struct {
	ctx   context.Context //nolint:containedctx // cron's jobs take no context
	cron  *cron.Cron
	chain cron.Chain
	all   []cron.Job
}

func newJobs(ctx context.Context) *jobs {
	logger := cronLogger{klog.FromContext(ctx)}
	return &jobs{
		ctx:  ctx,
		cron: cron.New(cron.WithLogger(logger)),
		// In this order: a panic that passed SkipIfStillRunning would leave its
		// job marked as running for ever.
		chain: cron.NewChain(cron.SkipIfStillRunning(logger), cron.Recover(logger)),
	}
}

// add adds a job before the jobs are started.
func (j *jobs) add(schedule cron.Schedule, do func(context.Context)) {
	job := j.chain.Then(cron.FuncJob(func() { do(j.ctx) }))
	j.cron.Schedule(schedule, job)
	j.all = append(j.all, job)
}

// run runs each job once and then by its schedule, until ctx ends. It does not
// wait for jobs: one may hang in a driver.
func (j *jobs) run() {
	for _, job := range j.all {
		go job.Run()
	}
	j.cron.Start()
	<-j.ctx.Done()
	j.cron.Stop()
}

// cronLogger passes on what cron has to say. That a job is started is not worth a
// line.
type cronLogger struct{ logr.Logger }

// Info implements cron.Logger.
func (l cronLogger) Info(message string, values ...any) {
	l.Logger.V(4).Info("cron: "+message, values...)
}

// Error implements cron.Logger.
func (l cronLogger) Error(err error, message string, values ...any) {
	l.Logger.Error(err, "cron: "+message, values...)
}
