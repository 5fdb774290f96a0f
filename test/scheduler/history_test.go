// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
)

// TestWhatTheSchedulerHasLearnedSurvivesIt ends the scheduler after it has seen how long Pods run. The next one still
// knows it: it expects a Pod without a limit to end soon, and not after the four hours that are assumed otherwise.
func TestWhatTheSchedulerHasLearnedSurvivesIt(t *testing.T) {
	const jobs = 9
	for name, test := range map[string]struct {
		period int // in seconds
		signal syscall.Signal
	}{
		"killed":      {1, syscall.SIGKILL},
		"told-to-end": {3600, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHistorySuite(t, name, test.period)
			for i := range jobs {
				s.createPods(gang{name: "eval-" + strconv.Itoa(i), gpus: 4, duration: "1s"}.in("all", 0))
			}
			for i := range jobs {
				s.waitForEnd(1, "eval-"+strconv.Itoa(i))
			}
			s.createPods(gang{name: "runs", gpus: 8}.in("all", 0))
			s.waitForBound(1, "runs")
			s.createTasks(gang{name: "before", gpus: 8, duration: "1s"}.in("all", 0))
			s.waitForSoon("before")
			if test.signal == syscall.SIGKILL {
				s.waitForRuntimes(jobs)
			}
			s.restartScheduler(test.signal)
			s.waitForRuntimes(jobs)
			s.createTasks(gang{name: "after", gpus: 8, duration: "1s"}.in("all", 0))
			s.waitForSoon("after")
		})
	}
}

// newHistorySuite returns a cluster of one node and one queue, whose scheduler writes what it learns every few seconds.
func newHistorySuite(t *testing.T, name string, period int) *queueSuite {
	t.Helper()
	config, err := schedulerConfig(arguments{"historyPeriodSeconds": period})
	if err != nil {
		t.Fatal(err)
	}
	c, err := startCluster(name, "--scheduler-config="+writeConfig(t, config), "--nodes=name=n,model=h100,count=1,gpus=8,gpu-memory=80000Mi")
	if err != nil {
		t.Fatal(err)
	}
	c.stopAfter(t)
	if _, err := c.tasks.FalldioV1().GPUQueues().Create(t.Context(), queue("all", 0, nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return &queueSuite{suite: newSuiteIn(t, c)}
}

// waitForRuntimes waits until the run times of so many jobs are kept.
func (s *queueSuite) waitForRuntimes(jobs float64) {
	s.Helper()
	s.eventually("the run times are kept", func() (bool, string) {
		kept, err := s.keptRuntimes()
		return kept == jobs, fmt.Sprint(kept, err)
	})
}

// keptRuntimes returns of how many jobs the run times are kept.
func (s *queueSuite) keptRuntimes() (float64, error) {
	object, err := s.kube.CoreV1().ConfigMaps("gpu-controller-system").Get(s.Context(), "gpu-scheduler-history", metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	content, err := gzip.NewReader(bytes.NewReader(object.BinaryData["runtimes"]))
	if err != nil {
		return 0, err
	}
	kept := struct{ History *runtimes.History }{History: runtimes.NewHistory()}
	err = json.NewDecoder(content).Decode(&kept)
	return kept.History.Jobs(), err
}

// waitForSoon waits until a task is expected to start within two hours.
func (s *queueSuite) waitForSoon(name string) {
	s.Helper()
	s.eventually(name+" is expected to start soon", func() (bool, string) {
		estimate := s.getTask(name).Status.EstimatedStart
		return isSoon(estimate), fmt.Sprintf("%+v", estimate)
	})
}

func isSoon(estimate *v1.StartEstimate) bool {
	return estimate != nil && !estimate.Likely.IsZero() && time.Until(estimate.Likely.Time) < 2*time.Hour
}

// restartScheduler ends the scheduler and waits until there is another one.
func (s *queueSuite) restartScheduler(signal syscall.Signal) {
	s.Helper()
	pid, err := s.schedulerProcess()
	if err != nil {
		s.Fatal(err)
	}
	s.ledger.killed(time.Now())
	if err := syscall.Kill(pid, signal); err != nil {
		s.Fatal(err)
	}
	s.eventually("localcluster has started another scheduler", func() (bool, string) {
		next, err := s.schedulerProcess()
		return err == nil && next != pid, fmt.Sprint(next, err)
	})
}
