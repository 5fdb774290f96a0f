// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Two GPUs are free on both nodes. Only large can become whole for Pods that need four.
func TestNodesAreLeftToBecomeWholeOncePodsAreKnownToEnd(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options []func(*corev1.Pod)
		want    string
	}{
		"nothing is known":       {nil, "large"},
		"they declare run times": {[]func(*corev1.Pod){runsFor(time.Hour)}, "small"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("large", "a", 4)
			f.addNode("small", "a", 2)
			f.comes(at(pod("user", 2), "large", 0, 1))
			for i := range 20 {
				p := pod(fmt.Sprint("earlier-", i), 1+3*(i%2), test.options...)
				f.comes(p)
				if decision := f.decide(p); (decision.Node != "") != (i%2 == 0) {
					t.Fatalf("%s: %+v", p.Name, decision)
				}
				f.goes(p)
			}
			last := pod("last", 1, test.options...)
			f.comes(last)
			if decision := f.decide(last); decision.Node != test.want {
				t.Errorf("it goes to %q, want %s", decision.Node, test.want)
			}
		})
	}
}
