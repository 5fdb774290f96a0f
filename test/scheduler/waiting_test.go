// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/gputask"
)

// TestABigGangAmongSmallTasksGetsItsTurn keeps all GPUs busy with single Pods, of which
// more are always waiting. A gang that needs two whole nodes at once would otherwise never
// find them free.
func TestABigGangAmongSmallTasksGetsItsTurn(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	name := s.namespace
	s.startScheduler(name, nil)
	s.addNodes(machines(3, machine{name: "n", gpus: 4})...)
	stop := s.keepBusy(gang{name: "small", scheduler: name, duration: "1500ms"}, 20)
	s.waitForBound(12, "small")
	s.createTasks(gang{name: "big", pods: 2, gpus: 4, scheduler: name, duration: "1s"})
	begin := time.Now()
	s.waitForBound(2, "big")
	t.Logf("the big gang waited for %v", time.Since(begin).Round(time.Millisecond))
	s.waitForEnd(2, "big")
	s.waitForBound(12, "small")
	if whole := stop(); whole < 20 {
		t.Errorf("only %d small Pods came: this proves nothing", whole)
	}
}

// keepBusy keeps this many unfinished Pods in the cluster until the returned function is
// called, which returns how many were created.
func (s *suite) keepBusy(like gang, alive int) (stop func() int) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	count := 0
	var busy sync.WaitGroup
	busy.Go(func() {
		for ctx.Err() == nil {
			ended := s.ledger.podsWith(func(pod *corev1.Pod) bool {
				return pod.Labels["gang"] == like.name && pod.Status.Phase == corev1.PodSucceeded
			})
			if count-len(ended) >= alive {
				select {
				case <-ctx.Done():
				case <-time.After(pollEvery):
				}
				continue
			}
			_, err := s.kube.CoreV1().Pods(s.namespace).Create(ctx, s.podOf(like, count), metav1.CreateOptions{})
			if err != nil && ctx.Err() == nil {
				s.Errorf("creating a small Pod: %v", err)
				return
			}
			count++
		}
	})
	stop = sync.OnceValue(func() int {
		cancel()
		busy.Wait()
		return count
	})
	s.Cleanup(func() { stop() })
	return stop
}

// TestWhenAGangThatWaitsGoesOthersGoOn: nothing is booked for a deleted gang.
func TestWhenAGangThatWaitsGoesOthersGoOn(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	name := s.namespace
	s.startScheduler(name, nil)
	s.addNodes(machines(2, machine{name: "n", gpus: 4})...)
	s.createPods(gang{name: "runs", gpus: 1, scheduler: name})
	s.waitForBound(1, "runs")
	s.createTasks(gang{name: "big", pods: 2, gpus: 4, scheduler: name})
	s.waitForBooking("big")
	s.createPods(gang{name: "other", gpus: 3, scheduler: name})
	s.waitForRefusal("other", "")
	if err := s.tasks.FalldioV1().GPUTasks(s.namespace).Delete(t.Context(), "big", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s.within(15*time.Second, "the Pod that waited because of it starts", func() (bool, string) {
		pods := s.ledger.podsOf("other")
		return countPods(pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }) == 1, describe(pods)
	})
	t.Logf("after %v", time.Since(begin).Round(time.Millisecond))
}

// TestPodsWithoutGPUsDoNotTakeWhatIsBookedForAGang: a Pod that would take CPU which becomes
// free for the gang has to wait, and starts when the gang has what it needs.
func TestPodsWithoutGPUsDoNotTakeWhatIsBookedForAGang(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	name := s.namespace
	s.startScheduler(name, nil)
	s.addNodes(machine{name: "n", gpus: 4, cpu: "32"})
	s.createPods(gang{name: "runs", pods: 2, min: 1, gpus: 1, cpu: "12", scheduler: name})
	s.waitForBound(2, "runs")
	s.createPods(gang{name: "big", gpus: 4, cpu: "28", scheduler: name})
	s.waitForBooking("big")
	s.createPod(s.withoutGPUs(gang{name: "small", cpu: "4", scheduler: name, duration: "1ms"}))
	s.waitForEnd(1, "small") // the gang leaves so much
	s.createPod(s.withoutGPUs(gang{name: "large", cpu: "5", scheduler: name, duration: "1ms"}))
	s.waitForRefusal("large", "kept for a gang that waits for others to leave")
	s.deleteGang("runs")
	s.waitForBound(1, "big")
	s.deleteGang("big")
	s.waitForEnd(1, "large")
}

// waitForBooking waits until a gang is promised a start. Pods that are created to see whether they are turned away
// could take what would be booked for it.
func (s *suite) waitForBooking(name string) {
	s.Helper()
	s.eventually("nodes are booked for "+name, func() (bool, string) {
		pods := s.ledger.podsOf(name)
		return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
			estimate := gputask.StartEstimateOf(pod)
			return estimate != nil && estimate.Reserved
		}), describe(pods)
	})
}
