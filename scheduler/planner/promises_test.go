// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// promised lets a Pod have been told when it starts.
func promised(latest time.Time, booked bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		text, err := json.Marshal(v1.StartEstimate{Earliest: metav1.NewTime(latest), Likely: metav1.NewTime(latest), Latest: metav1.NewTime(latest), Reserved: booked})
		if err != nil {
			text = []byte(err.Error()) // the test fails: that is no promise
		}
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationStartEstimate, string(text))
	}
}

// postponements returns the Events about starts that were postponed, since the last call.
func (f *fixture) postponements() (texts []string) {
	for {
		select {
		case text := <-f.handle.recorder.Events:
			if strings.Contains(text, "StartPostponed") {
				texts = append(texts, text)
			}
		default:
			return texts
		}
	}
}

// TestAPromiseIsKeptOrExplainedAfterARestart: a Pod was told by a former process when it starts. Now a job runs for an
// hour.
func TestAPromiseIsKeptOrExplainedAfterARestart(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		told func(*corev1.Pod)
		want string // a part of the Event; empty for none
	}{
		"it was to start earlier":              {promised(beginning.Add(10*time.Minute), true), "13:00:00Z instead of 2026-11-21T12:10:00Z: gpu-scheduler was restarted"},
		"it was to have started":               {promised(beginning.Add(-time.Minute), true), "gpu-scheduler was restarted"},
		"it was to start then":                 {promised(beginning.Add(time.Hour), true), ""},
		"it was to start about then":           {promised(beginning.Add(51*time.Minute), true), ""},
		"it was to start later":                {promised(beginning.Add(2*time.Hour), true), ""},
		"it was not promised anything":         {promised(beginning.Add(10*time.Minute), false), ""},
		"it was not told anything":             {func(*corev1.Pod) {}, ""},
		"what it was told can't be understood": {func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationStartEstimate, "soon") }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("node-0", "a", 8)
			f.withQueues(queue("all", 0, nil))
			waits := pod("waits", 8, test.told)
			f.comes(at(pod("runs", 8, runsFor(time.Hour), since(beginning)), "node-0", 0, 1, 2, 3, 4, 5, 6, 7), waits)
			f.decide(waits)
			f.line.Order()
			f.clock.Step(time.Minute)
			f.line.LookAhead()
			got := f.postponements()
			if all := strings.Join(got, " "); !strings.Contains(all, test.want) || len(got) > 1 || (all == "") != (test.want == "") {
				t.Errorf("the Events are %q, want one that contains %q", got, test.want)
			}
			f.clock.Step(time.Minute)
			f.line.LookAhead()
			if got := f.postponements(); len(got) > 0 {
				t.Errorf("it is said again: %q", got)
			}
		})
	}
}
