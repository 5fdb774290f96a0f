// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"
)

// TestTheShortestWindow: what is before and after a violation and has nothing to do with it is cut off.
func TestTheShortestWindow(t *testing.T) {
	t.Parallel()
	b := new(builder).node(newNode("n", "A", "B"))
	for range 20 {
		b.node(newNode("m", "C"))
	}
	b.pod(newPod("old", nil, "B"), newPod("first", nil, "A"))
	from := len(b.entries) - 1
	b.fault(FaultKill, "gpu-scheduler").node(newNode("m", "C"))
	b.pod(newPod("second", nil, "A"))
	to := len(b.entries)
	for range 20 {
		b.node(newNode("m", "C"))
	}
	found := All(Default(), b.entries)
	if len(found) != 1 {
		t.Fatalf("found %s", describeAll(found))
	}
	window := Shrink(Default(), b.entries, &found[0])
	if window.From != from || window.To != to {
		t.Errorf("the window is [%d, %d), want [%d, %d)", window.From, window.To, from, to)
	}
	if window.First != int64(from+1) || window.Last != int64(to) {
		t.Errorf("its revisions are %d to %d", window.First, window.Last)
	}
	var lines []string
	for i := range window.Entries {
		lines = append(lines, window.Entries[i].String())
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"Pod ns/first", "Pod ns/second", "begins: kill gpu-scheduler"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "Node m") {
		t.Errorf("a node that has nothing to do with it is in\n%s", text)
	}
}

// TestEachViolationIsReportedOnce: a broken invariant stays broken.
func TestEachViolationIsReportedOnce(t *testing.T) {
	t.Parallel()
	b := new(builder).node(newNode("n", "A")).pod(newPod("a", nil, "A"), newPod("b", nil, "A"), newPod("c", nil, "A"))
	b.mustFind(t, InvariantCards, "200 %")
}
