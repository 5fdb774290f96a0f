// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
)

// A journal may have hundreds of megabytes, and each viewer has their own.
func TestAJournalThatNobodyAsksForAnyMoreIsNotKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(path, []byte(`{"checkpoint":{"version":1,"policy":"none"}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	s, err := New(path, false, clock)
	if err != nil {
		t.Fatal(err)
	}
	kept := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.known)
	}
	viewer := func(name string) *access.Viewer {
		return &access.Viewer{Name: name, Clients: &cluster.Clients{Config: &rest.Config{}}}
	}
	for _, name := range []string{"a", "b", "a"} {
		if _, err := s.read(t.Context(), viewer(name)); err != nil {
			t.Fatal(err)
		}
		clock.Step(time.Second)
	}
	if kept() != 2 {
		t.Errorf("the journals of %d viewers are kept, want 2", kept())
	}
	clock.Step(freshFor)
	if kept() != 0 {
		t.Errorf("the journals of %d viewers are kept although nobody asks any more", kept())
	}
}

func TestAJournalThatHasNotBegunHasNoDecisions(t *testing.T) {
	t.Parallel()
	const checkpoint = `{"checkpoint":{"version":1,"policy":"none"}}` + "\n"
	for name, test := range map[string]struct{ content, err string }{
		"an empty one":                                {"", ""},
		"one whose checkpoint is being written":       {`{"checkpoint":{"version":1,"policy":"none","nodes":2}}`, ""},
		"one of a scheduler that has decided nothing": {checkpoint, ""},
		"a file that is no journal":                   {"{}\n{}\n", "it is not a journal of gpu-scheduler"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "journal")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := New(path, false, clocktesting.NewFakeClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
			if err != nil {
				t.Fatal(err)
			}
			viewer := &access.Viewer{Clients: &cluster.Clients{Config: &rest.Config{}}}
			list, err := s.Decisions(t.Context(), viewer, &rows.DecisionFilter{})
			step, stepErr := s.Step(t.Context(), viewer, 1)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || stepErr == nil {
					t.Errorf("errors %v and %v", err, stepErr)
				}
				return
			}
			if err != nil || len(list.Decisions) != 0 || list.Missing != "" || step != nil || stepErr != nil {
				t.Errorf("list %+v, step %+v, errors %v and %v", list, step, err, stepErr)
			}
		})
	}
}
