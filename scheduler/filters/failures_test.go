// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"fmt"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

func TestAFailureIsRememberedUntilTheClusterHasChanged(t *testing.T) {
	t.Parallel()
	type step struct {
		version uint64
		key     string
	}
	tests := map[string]struct {
		put   []step
		asked step
		want  string
	}{
		"nothing has failed":                              {asked: step{1, "a"}},
		"another request has failed":                      {put: []step{{1, "b"}}, asked: step{1, "a"}},
		"the request has failed":                          {put: []step{{1, "a"}, {1, "b"}}, asked: step{1, "a"}, want: "1a"},
		"it has failed at an earlier version":             {put: []step{{1, "a"}}, asked: step{2, "a"}},
		"it has failed earlier, another one later":        {put: []step{{1, "a"}, {2, "b"}}, asked: step{2, "a"}},
		"it has failed again at this version":             {put: []step{{1, "a"}, {2, "a"}}, asked: step{2, "a"}, want: "2a"},
		"another one began before, and has failed later":  {put: []step{{2, "a"}, {1, "b"}}, asked: step{2, "a"}, want: "2a"},
		"it began before another one, which failed later": {put: []step{{2, "b"}, {1, "a"}}, asked: step{2, "a"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f failures
			refused := map[string]*Refusals{}
			for _, one := range test.put {
				said := fmt.Sprint(one.version, one.key)
				refused[said] = &Refusals{}
				f.put(one.version, one.key, refused[said])
			}
			if got, found := f.get(test.asked.version, test.asked.key); got != refused[test.want] || found != (test.want != "") {
				t.Errorf("got %p, %t, want %q of %v", got, found, test.want, refused)
			}
		})
	}
}

func TestTheNumberOfFailuresThatAreRememberedIsBounded(t *testing.T) {
	t.Parallel()
	var f failures
	for i := range 3 * maxFailures {
		f.put(7, fmt.Sprint(i), nil)
		if _, found := f.get(7, fmt.Sprint(i)); !found {
			t.Fatalf("failure %d is not remembered", i)
		}
	}
	if len(f.known) > maxFailures {
		t.Errorf("%d are remembered, want at most %d", len(f.known), maxFailures)
	}
}

// Hundreds of gangs of a few shapes wait: each shape is planned once.
func TestEqualGangsHaveEqualKeys(t *testing.T) {
	t.Parallel()
	small, large := placement.Shape{GPUs: 1}, placement.Shape{GPUs: 8}
	// request returns that of a gang whose members have these shapes.
	request := func(need int, shapes ...placement.Shape) *gangs.Request {
		var members []*gangs.Member
		for _, shape := range shapes {
			members = append(members, &gangs.Member{Shape: shape})
		}
		shape := func(m *gangs.Member) placement.Shape { return m.Shape }
		return &gangs.Request{Members: snapshot.NewMembers(members, shape, nil, need)}
	}
	base := requestKey(request(3, small, small, large), "")
	tests := map[string]struct {
		gang     *gangs.Request
		blocking string
		change   func(*gangs.Request)
		equal    bool
	}{
		"the same":                           {gang: request(3, small, small, large), equal: true},
		"the same in another order":          {gang: request(3, large, small, small), equal: true},
		"within the domain that it tries":    {gang: request(3, small, small, large), change: func(r *gangs.Request) { r.Within = "x" }, equal: true},
		"another number of members":          {gang: request(4, small, small, small, large)},
		"another shape":                      {gang: request(3, small, large, large)},
		"another minimum":                    {gang: request(2, small, small, large)},
		"other labels of nodes":              {gang: request(3, small, small, placement.Shape{GPUs: 8, Pool: "blue"})},
		"another level":                      {gang: request(3, small, small, large), change: func(r *gangs.Request) { r.Level = 2 }},
		"a level that is required":           {gang: request(3, small, small, large), change: func(r *gangs.Request) { r.Required = true }},
		"near members that run":              {gang: request(3, small, small, large), change: func(r *gangs.Request) { r.Near = "zone/rack" }},
		"nodes that are kept from it":        {gang: request(3, small, small, large), change: func(r *gangs.Request) { r.Except = []string{"a"} }},
		"reservations that are in its way":   {gang: request(3, small, small, large), blocking: "reservation/a"},
		"a selector that admits other nodes": {gang: request(3, small, small, placement.Shape{GPUs: 8, Selector: &snapshot.Selector{}})},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.change != nil {
				test.change(test.gang)
			}
			if got := requestKey(test.gang, test.blocking) == base; got != test.equal {
				t.Errorf("equal keys: %t, want %t", got, test.equal)
			}
		})
	}
}

func TestTheOrderOfNodesThatAreKeptFromAGangDoesNotMatter(t *testing.T) {
	t.Parallel()
	one, other := &gangs.Request{Members: &snapshot.Members[*gangs.Member]{}}, &gangs.Request{Members: &snapshot.Members[*gangs.Member]{}}
	one.Except, other.Except = []string{"b", "a", "b"}, []string{"a", "b"}
	if requestKey(one, "") != requestKey(other, "") {
		t.Error("the keys differ")
	}
	if one.Except[0] != "b" {
		t.Error("the gang was changed")
	}
}
