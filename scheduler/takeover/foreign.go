// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/scheduler/binding"
)

// foreignSchedulers are other processes that bind Pods beside this one, and when each was
// last reported.
type foreignSchedulers struct {
	mu           sync.Mutex
	lastReported map[string]time.Time
}

// reportPeriod is how often another process that binds Pods is reported.
const reportPeriod = time.Minute

// shouldReport reports whether another process that binds Pods is to be reported now.
func (s *foreignSchedulers) shouldReport(instance string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, reported := s.lastReported[instance]; reported && now.Sub(last) < reportPeriod {
		return false
	}
	if s.lastReported == nil {
		s.lastReported = map[string]time.Time{}
	}
	maps.DeleteFunc(s.lastReported, func(_ string, last time.Time) bool { return now.Sub(last) >= reportPeriod })
	s.lastReported[instance] = now
	return true
}

// CheckBinder checks which scheduler bound a Pod that has just got its node: if it was another gpu-scheduler, although
// this one leads, both give out the same GPUs.
func (t *Term) CheckBinder(pod *corev1.Pod) {
	instance, own := binding.InstanceOf(pod), t.sources.Fencer.Instance()
	if instance == "" || instance == own || !t.MayAct() || !t.sources.Mirror.Has(pod.Spec.NodeName) {
		return
	}
	t.sources.CountForeign()
	if t.foreign.shouldReport(instance, t.sources.Clock.Now()) {
		t.sources.Logger.Error(nil, "Another gpu-scheduler binds Pods beside this one: a GPU may be given twice, and the node refuses one of the Pods. Have them elect a leader with one lease, or give each node pools of its own",
			"pod", klog.KObj(pod), "node", pod.Spec.NodeName, "instance", instance, "thisInstance", own)
		t.sources.Events.Eventf(pod, nil, corev1.EventTypeWarning, "SecondScheduler", "Binding",
			"Bound by %s, which schedules beside %s: both give out the same GPUs", instance, own)
	}
}
