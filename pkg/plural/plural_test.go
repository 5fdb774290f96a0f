// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plural

import "testing"

func TestOnlyOneIsSingular(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]string{0: "0 Pods are", 1: "1 Pod is", 2: "2 Pods are"} {
		if got := Count(count, "Pod") + " " + Verb(count, "is", "are"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTheLastWordOfAListIsJoinedByAnd(t *testing.T) {
	t.Parallel()
	for want, words := range map[string][]string{"": nil, "zone": {"zone"}, "zone and leaf": {"zone", "leaf"}, "zone, rack and leaf": {"zone", "rack", "leaf"}} {
		if got := List(words); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAllOfTwoAreBoth(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]string{1: "the Pod is", 2: "both Pods are", 3: "all 3 Pods are", 20: "all 20 Pods are"} {
		if got := All(count, "Pod", "is", "are"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestThereIsOneAndThereAreSeveral(t *testing.T) {
	t.Parallel()
	for want, words := range map[string][]string{"there is zone": {"zone"}, "there are zone and leaf": {"zone", "leaf"}} {
		if got := ThereAre(words); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
