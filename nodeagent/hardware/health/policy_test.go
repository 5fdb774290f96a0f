// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"
)

func TestPolicyWith(t *testing.T) {
	t.Parallel()
	policy, err := DefaultPolicy().With("94=quiet, 31=reset,default=quiet")
	if err != nil {
		t.Fatal(err)
	}
	for xid, want := range map[uint64]Reaction{94: Quiet, 31: Reset, 13: Ignore, 79: Quiet} {
		if got := policy.reaction(xid); got != want {
			t.Errorf("XID %d: %s, want %s", xid, got, want)
		}
	}
	standard := DefaultPolicy()
	if got := standard.reaction(31); got != Ignore {
		t.Errorf("the default policy was changed: XID 31 is %s", got)
	}
	for _, xid := range []uint64{48, 79, 94, 119} {
		if got := standard.reaction(xid); got != Reset {
			t.Errorf("by default XID %d is %s", xid, got)
		}
	}
}

func TestPolicyRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ changes, want string }{
		"an unknown reaction":      {"79=explode", "expected XID=REACTION"},
		"a word that is no number": {"seventy=reset", "neither the number of an XID"},
		"a number alone":           {"79", "expected XID=REACTION"},
		"a negative number":        {"-1=reset", "neither the number of an XID"},
		"one of several":           {"79=reset,x=quiet", `"x=quiet"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := DefaultPolicy().With(test.changes); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func FuzzPolicyWith(f *testing.F) {
	f.Add("79=reset,default=quiet")
	f.Fuzz(func(t *testing.T, changes string) {
		policy, err := DefaultPolicy().With(changes)
		if err != nil {
			return
		}
		for xid := range policy.XIDs {
			if reaction := policy.reaction(xid); reaction != Ignore && reaction != Quiet && reaction != Reset {
				t.Errorf("%q makes XID %d %q", changes, xid, reaction)
			}
		}
	})
}
