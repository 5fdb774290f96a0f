// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestKillingTheControllerLosesAndDoublesNothing runs 200 tasks (single Pods,
// gangs, some that fail once, some in chains) while the controller is killed
// with SIGKILL at random moments and started again. Each task must end, each Pod must
// have been created exactly once per attempt, and each failure must have been counted
// exactly once. Each controller is left alive until it has written something, however
// slow the machine is: otherwise there would be no progress.
func TestKillingTheControllerLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	const tasks = 200
	s := newSuite(t)
	census := s.takeCensus()
	for i := range tasks {
		s.create(crashTask(i))
	}
	random := rand.New(rand.NewPCG(1, 2))
	kills := 0
	for ; !s.allFinished(tasks); kills++ {
		before := s.written()
		c := s.startController()
		s.eventually("the controller has written something, or nothing is left to do", func() (bool, string) {
			return s.written() != before || s.allFinished(tasks), "nothing has changed: " + before
		})
		s.waitABit(time.Duration(random.IntN(1000)) * time.Millisecond)
		c.kill()
	}
	t.Logf("the controller was killed %d times", kills)
	if kills < 5 {
		t.Errorf("the controller was killed only %d times: this proves nothing", kills)
	}
	s.startController() // to write what the last kill may have prevented
	if doubles := census.doubles(); len(doubles) > 0 {
		t.Errorf("Pods were created more than once: %v", doubles)
	}
	for i := range tasks {
		want := crashTask(i)
		task := s.waitForPhase(want.Name, v1.PhaseSucceeded)
		if restarts := crashRestarts(i); int(task.Status.Restarts) != restarts {
			t.Errorf("task %s was restarted %d times, want %d", task.Name, task.Status.Restarts, restarts)
		}
		for member := range *want.Spec.Replicas {
			name := want.Name
			if *want.Spec.Replicas > 1 {
				name = fmt.Sprintf("%s-%d", want.Name, member)
			}
			// A gang may fail before all its Pods were created: some of them then
			// start with the next attempt.
			if got := census.attempts(name); got < 1 || got > crashRestarts(i)+1 {
				t.Errorf("Pod %s had %d attempts, want 1 to %d", name, got, crashRestarts(i)+1)
			}
		}
	}
}

// crashRestarts is how often a task of the crash test fails before it succeeds.
func crashRestarts(i int) int {
	if i%4 == 1 {
		return 1
	}
	return 0
}

func crashTask(i int) *v1.GPUTask {
	name := func(i int) string { return fmt.Sprintf("task-%03d", i) }
	replicas := int32(1)
	if i%5 == 0 {
		replicas = 3
	}
	task := newTask(name(i), replicas, "1s", failAttempts, fmt.Sprint(crashRestarts(i)))
	if i%10 == 9 {
		task.Spec.DependsOn = []v1.Dependency{{Name: name(i - 1)}}
	}
	return task
}

// written returns a text that changes with everything that a controller writes about
// tasks.
func (s *suite) written() string {
	s.Helper()
	list, err := s.tasks().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	versions := make([]string, len(list.Items))
	for i := range list.Items {
		versions[i] = list.Items[i].ResourceVersion
	}
	return strings.Join(versions, " ")
}

// allFinished reports whether this many tasks have finished.
func (s *suite) allFinished(tasks int) bool {
	s.Helper()
	list, err := s.tasks().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	finished := 0
	for i := range list.Items {
		if list.Items[i].Status.CompletionTime != nil {
			finished++
		}
	}
	return finished == tasks
}

// waitABit lets a controller work for a while before it is killed: the test depends on
// the moment itself, not on a condition.
func (s *suite) waitABit(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.Context().Done():
	}
}
