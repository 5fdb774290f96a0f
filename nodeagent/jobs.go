// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/robfig/cron/v3"
	"k8s.io/klog/v2"
)

// jobs runs periodic jobs. A job that is still running when it is due is skipped; a panic does
// not affect the other jobs or later runs.
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
		// In this order, since a panic through SkipIfStillRunning would leave the job
		// marked as running forever.
		chain: cron.NewChain(cron.SkipIfStillRunning(logger), cron.Recover(logger)),
	}
}

// add adds a job. It must not be called after run.
func (j *jobs) add(schedule cron.Schedule, do func(context.Context)) {
	job := j.chain.Then(cron.FuncJob(func() { do(j.ctx) }))
	j.cron.Schedule(schedule, job)
	j.all = append(j.all, job)
}

// run runs each job at once and then on its schedule, until ctx ends. It does not wait for
// running jobs: one may hang in a driver.
func (j *jobs) run() {
	for _, job := range j.all {
		go job.Run()
	}
	j.cron.Start()
	<-j.ctx.Done()
	j.cron.Stop()
}

// cronLogger logs cron's messages. Starts of jobs are logged at a high verbosity only.
type cronLogger struct{ logr.Logger }

// Info implements cron.Logger.
func (l cronLogger) Info(message string, values ...any) {
	l.Logger.V(4).Info("cron: "+message, values...)
}

// Error implements cron.Logger.
func (l cronLogger) Error(err error, message string, values ...any) {
	l.Logger.Error(err, "cron: "+message, values...)
}
