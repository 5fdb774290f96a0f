// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
)

func TestWhoGetsBookings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// waiting are classes with namespaces, such as "a/x". Booked ones end in !, those that may not start in ?.
		waiting, want string
	}{
		"the first of each class":                           {"a/x a/x b/x a/x a/x a/x b/x", "0 1 2 3 4 6"},
		"half of a class for a namespace while others wait": {"a/x a/x a/x a/x a/x a/y a/z", "0 1 5 6"},
		"all of it while nobody else waits":                 {"a/x a/x a/x a/x a/x", "0 1 2 3"},
		"the rest of it if the others are few":              {"a/x a/x a/x a/x a/y", "0 1 2 4"},
		"who has one keeps it":                              {"a/x a/y a/x a/y a/x! a/y!", "0 1 2 3 4 5"},
		"but not if these are too many":                     {"a/x a/x a/x a/x a/x! a/x! a/x! a/x! a/x!", "0 1 2 3 4 5 6 7"},
		"not who may not start":                             {"a/x? a/x? a/x? a/x? a/x? a/x", "5"},
		"the first ones of each class if there are many more": {
			strings.Repeat("a/x b/x c/x d/x e/x f/x g/x h/x ", 3), "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var list []contender
			words := strings.Fields(test.waiting)
			for _, word := range words {
				class, namespace, _ := strings.Cut(strings.TrimRight(word, "!?"), "/")
				list = append(list, contender{class: class, namespace: namespace, booked: strings.HasSuffix(word, "!")})
			}
			asked := map[int]int{}
			got := choose(list, 4, func(i int) bool {
				asked[i]++
				return !strings.HasSuffix(words[i], "?")
			})
			if text := strings.Trim(fmt.Sprint(got), "[]"); text != test.want {
				t.Errorf("got %s, want %s", text, test.want)
			}
			for i, times := range asked {
				if times > 1 {
					t.Errorf("%d was judged %d times", i, times)
				}
			}
		})
	}
}

// However many wait, few of them are looked at for bookings.
func TestFewOfManyAreCandidates(t *testing.T) {
	t.Parallel()
	l := newLine(t, bareCore{})
	list := []*v1.GPUQueue{queue("all", 0, nil)}
	l.SetState(NewState(gpuqueue.NewTree(list), list, func(string) *corev1.Namespace { return nil }))
	l.Registry.Serve("gpu-scheduler")
	l.Registry.Start()
	for i := range 3000 {
		l.Registry.Observe(pod(fmt.Sprint("p-", i), 1, func(p *corev1.Pod) { p.Namespace = fmt.Sprint("team-", i%300) }))
	}
	entries := l.inOrder(l.State(), l.Registry.Waiting())
	for i := range entries {
		entries[i].Tried = true
	}
	candidates := l.candidates(entries, l.Clock.Now())
	if len(candidates) != mostCandidates {
		t.Errorf("%d of %d are candidates", len(candidates), len(entries))
	}
	l.order.set(entries, candidates, nil, beginning)
	if got := l.headOfLine(l.Clock.Now()); len(got.waiting) != l.Args.Reservations {
		t.Errorf("%d get bookings, want %d", len(got.waiting), l.Args.Reservations)
	}
}
