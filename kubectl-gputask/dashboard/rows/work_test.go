// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"reflect"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/verdict"
)

func TestWhatAnEntrySays(t *testing.T) {
	t.Parallel()
	estimate := &v1.StartEstimate{Earliest: at(0), Likely: at(60), Latest: at(90), Behind: "train (8 GPUs)", Reserved: true}
	tests := map[string]struct {
		entry        analysis.LineEntry
		reason, help string
		never        bool
		expected     string
	}{
		"the scheduler's reason, and what it says would help": {
			entry: analysis.LineEntry{WaitingReason: &v1.WaitingReason{
				Reason: v1.WaitsForGPUs, Needs: "needs 4 GPUs", Message: "2 nodes have too few free GPUs",
				Remedies: []v1.WaitingRemedy{{Message: "with 2 more free GPUs"}, {Message: "with 2 GPUs for each Pod"}},
			}},
			reason: "2 nodes have too few free GPUs; needs 4 GPUs", help: "it would start with 2 more free GPUs, or with 2 GPUs for each Pod",
		},
		"what it waits for, with its estimate": {
			entry:  analysis.LineEntry{Reason: "needs 4 GPUs", EstimatedStart: estimate},
			reason: "starts after train (8 GPUs) ends: needs 4 GPUs", expected: "after train (8 GPUs) ends; its place is booked",
		},
		"what never fits": {
			entry: analysis.LineEntry{Refused: true, Verdict: verdict.Verdict{Kind: v1.TaskNeverFits}, WaitingReason: &v1.WaitingReason{
				Reason: v1.WaitsForever, Needs: "needs 16 GPUs", Message: "it would not fit even if nothing else ran; 2 nodes have too few GPUs", Never: true,
			}},
			reason: "it would not fit even if nothing else ran; 2 nodes have too few GPUs; needs 16 GPUs", never: true,
		},
		"all that a scheduler says in words alone": {
			entry:  analysis.LineEntry{Reason: "needs 4 GPUs; it would start with 2 more free GPUs", WaitingReason: &v1.WaitingReason{Message: "needs 4 GPUs; it would start with 2 more free GPUs"}},
			reason: "needs 4 GPUs; it would start with 2 more free GPUs",
		},
		"what is not served": {
			entry: analysis.LineEntry{Reason: "queue x does not exist", Refused: true}, reason: "queue x does not exist",
		},
		"what nobody has said anything about": {entry: analysis.LineEntry{}, reason: "the scheduler has not reported a reason yet"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := entryRow(&test.entry)
			expected := ""
			if row.EstimatedStart != nil {
				expected = row.EstimatedStart.Message
			}
			if row.Reason != test.reason || row.Help != test.help || row.Never != test.never || expected != test.expected {
				t.Errorf("row %+v, expected start %q", row, expected)
			}
		})
	}
}

func TestRemediesThatNoSchedulerHasPublishedAreThoseOfTheAdvice(t *testing.T) {
	t.Parallel()
	fewer := []v1.WaitingRemedy{{Kind: "FewerGPUs", Value: "2", Message: "with 2 GPUs for each Pod"}}
	published := &v1.WaitingReason{Message: "2 nodes have too few free GPUs", Remedies: []v1.WaitingRemedy{{Kind: "FreeGPUs", Message: "with 2 more free GPUs"}}}
	for name, test := range map[string]struct {
		entry analysis.LineEntry
		want  Advice
	}{
		"no scheduler has said anything": {analysis.LineEntry{}, Advice{"it would start with 2 GPUs for each Pod", fewer}},
		"its scheduler has":              {analysis.LineEntry{WaitingReason: published}, Advice{"it would start with 2 more free GPUs", nil}},
		"it is not served":               {analysis.LineEntry{Refused: true}, Advice{}},
	} {
		test.entry.Kind, test.entry.Name = analysis.KindTask, "train"
		b := &builder{
			line: &analysis.Line{Waiting: []analysis.LineEntry{test.entry}}, set: Set{Waiting: {}},
			help: func(*analysis.LineEntry) Advice { return Advice{"it would start with 2 GPUs for each Pod", fewer} },
		}
		b.addWaiting()
		row := b.set[Waiting]["GPUTask /train"].(*Entry)
		if row.Help != test.want.Text || !reflect.DeepEqual(row.Remedies, test.want.Remedies) {
			t.Errorf("%s: %q, %+v", name, row.Help, row.Remedies)
		}
	}
}

func TestAnExplanationHasItsCommandsOnce(t *testing.T) {
	t.Parallel()
	said := verdict.Verdict{Kind: v1.TaskBlocked, Cause: "a claim is missing", Commands: []string{"kubectl get persistentvolumeclaims"}}
	row := ExplanationOf(nil, &analysis.Explanation{Task: &v1.GPUTask{}, Verdict: said}, start)
	if !slices.Equal(row.Commands, said.Commands) || slices.ContainsFunc(row.Lines, func(line show.Pair) bool { return line.Name == "Try" }) {
		t.Errorf("commands %q, lines %q", row.Commands, row.Lines)
	}
}

func TestAnExplanationSaysWhetherThePodsAreAtItsPlaces(t *testing.T) {
	t.Parallel()
	places := []analysis.Place{{Pod: "train-0", Node: "n"}}
	task := &v1.GPUTask{}
	for name, test := range map[string]struct {
		explanation analysis.Explanation
		placed      bool
	}{
		"it runs":  {analysis.Explanation{Task: task, Uses: places}, true},
		"it waits": {analysis.Explanation{Task: task, Outlook: &analysis.Outlook{Places: places}}, false},
	} {
		if row := ExplanationOf(nil, &test.explanation, start); len(row.Places) != 1 || row.Placed != test.placed {
			t.Errorf("%s: %+v", name, row)
		}
	}
}

func TestCostsAreRoundedToWhatIsWorthReading(t *testing.T) {
	t.Parallel()
	for number, want := range map[int64]int64{0: 0, 9: 9, 99: 99, 433: 430, 86_399: 86_000} {
		if got := rounded(number); got != want {
			t.Errorf("%d is rounded to %d, want %d", number, got, want)
		}
	}
}
