// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeproblems

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFaultsLastLongerEachTimeAndAreForgotten(t *testing.T) {
	t.Parallel()
	var f faults
	now := beginning
	for i, want := range []time.Duration{shortestFault, 2 * shortestFault, 4 * shortestFault, 8 * shortestFault, 16 * shortestFault, longestFault, longestFault} {
		f.add("node", now)
		if diff := cmp.Diff([]string{"node"}, f.nodes(now.Add(want-1))); diff != "" {
			t.Errorf("fault %d: %s", i+1, diff)
		}
		if nodes := f.nodes(now.Add(want)); len(nodes) > 0 {
			t.Errorf("fault %d lasts longer than %v", i+1, want)
		}
		now = now.Add(want)
	}
	f.nodes(now.Add(longestFault + 1))
	if len(f.byNode) > 0 {
		t.Error(fmt.Sprint("still known: ", f.byNode))
	}
}
