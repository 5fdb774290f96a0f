// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"
	"time"
)

func TestWithoutViewersTheHistoryOfALargeClusterIsContinuedLessOften(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		since, took time.Duration
		want        bool
	}{
		"a small cluster has a sample every 15 seconds":                           {samplePeriod, 50 * time.Millisecond, true},
		"one whose look took 2 seconds has none after 15 seconds":                 {samplePeriod, 2 * time.Second, false},
		"nor after 3 minutes":                                                     {3 * time.Minute, 2 * time.Second, false},
		"after 200 seconds it has cost a hundredth of a CPU, and has another one": {200 * time.Second, 2 * time.Second, true},
	} {
		if got := isSampleDue(test.since, test.took); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestThePageKnowsTheContextOfTheKubeconfig(t *testing.T) {
	t.Parallel()
	server, clients := serverWith(t)
	clients.Context = "lab"
	if known := server.feed.known(); known.Context != "lab" || known.Namespace != "default" {
		t.Errorf("context %q, namespace %q", known.Context, known.Namespace)
	}
}
