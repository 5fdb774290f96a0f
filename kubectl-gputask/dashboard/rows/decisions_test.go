// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/pkg/journal"
)

func TestDecisionsAreFiltered(t *testing.T) {
	t.Parallel()
	all := []journal.Decision{
		{Number: 1, Subject: "default/sweep-1", Outcome: journal.Placed},
		{Number: 2, Subject: "default/sweep-10", Outcome: journal.Waits},
		{Number: 3, Subject: "default/sweep-big-2", Outcome: journal.Waits},
		{Number: 4, Subject: "vision/sweep", Gang: true, Outcome: journal.Queued},
		{Number: 5, Subject: "default/sweep", Gang: true, Outcome: journal.Waits},
		{Number: 6, Subject: "default/sweep-2", Gang: true, Outcome: journal.Waits},
	}
	for name, test := range map[string]struct {
		filter DecisionFilter
		want   []int
	}{
		"all":                         {DecisionFilter{}, []int{1, 2, 3, 4, 5, 6}},
		"of a task":                   {DecisionFilter{Task: "default/sweep"}, []int{5}},
		"of an array, with its Pods":  {DecisionFilter{Task: "default/sweep", IsArray: true}, []int{1, 2, 5}},
		"of a task that is not there": {DecisionFilter{Task: "default/swe", IsArray: true}, nil},
		"by two words":                {DecisionFilter{Words: []string{"sweep", "vis"}}, []int{4}},
		"by outcome":                  {DecisionFilter{Outcome: "Waits"}, []int{2, 3, 5, 6}},
		"by all of these":             {DecisionFilter{Task: "default/sweep", IsArray: true, Words: []string{"1"}, Outcome: "Waits"}, []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := JournalOf(all, &test.filter, 10)
			var got []int
			for i := range list.Decisions {
				got = append(got, list.Decisions[i].ID)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || list.Selected != len(got) {
				t.Errorf("decisions (-want +got), %d selected:\n%s", list.Selected, diff)
			}
			if diff := cmp.Diff([]string{"Placed", "Queued", "Waits"}, list.Outcomes); diff != "" {
				t.Errorf("the outcomes (-want +got):\n%s", diff)
			}
		})
	}
}

// What a filter selects is looked for in all of the journal, not only in its end.
func TestOfManyDecisionsTheLastOnesAreListed(t *testing.T) {
	t.Parallel()
	all := []journal.Decision{{Number: 1, Subject: "default/old"}, {Number: 2, Subject: "default/old"}, {Number: 3, Subject: "default/old"}}
	for i := range 100 {
		all = append(all, journal.Decision{Number: 4 + i, Subject: "default/new"})
	}
	list := JournalOf(all, &DecisionFilter{Task: "default/old"}, 2)
	if len(list.Decisions) != 2 || list.Decisions[0].ID != 2 || list.Decisions[1].ID != 3 || list.Selected != 3 {
		t.Errorf("the list is %+v", list)
	}
	if none := JournalOf(nil, &DecisionFilter{}, 2); none.Decisions == nil || none.Outcomes == nil || none.From != nil {
		t.Errorf("without decisions it is %+v", none)
	}
}
