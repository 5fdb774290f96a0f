// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

func TestTablesAlignWhateverTheColours(t *testing.T) {
	t.Parallel()
	draw := func(colours bool) string {
		var out strings.Builder
		table := newTable("A", "LONG HEADING", "C")
		table.add("ä", Cell{Text: "x", Style: Red}, "1")
		table.add("longer", Cell{Text: "yy"}, "")
		table.write(&Page{Writer: &out, Colours: colours})
		return out.String()
	}
	want := "A        LONG HEADING   C\nä        x              1\nlonger   yy\n"
	if got := draw(false); got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	if got := strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "").Replace(draw(true)); got != want {
		t.Errorf("in colours, without them:\n%q, want\n%q", got, want)
	}
}

func TestTheLastColumnEndsWithTheTerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := newTable("NAME", "MESSAGE")
	table.add("train", "waiting for a node")
	table.write(&Page{Writer: &out, Width: 16})
	if want := "NAME    MESSAGE\ntrain   waiting…\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		most int
		want string
	}{{"short", 5, "short"}, {"longer", 5, "long…"}, {"äöüäöü", 4, "äöü…"}, {"any", 0, "any"}} {
		if got := truncate(test.text, test.most); got != test.want {
			t.Errorf("truncate(%q, %d) = %q, want %q", test.text, test.most, got, test.want)
		}
	}
}

func TestNumbersAreShortened(t *testing.T) {
	t.Parallel()
	for want, list := range map[string][]int{"": nil, "3": {3}, "0-1": {1, 0}, "0-3,5,7-8": {0, 1, 2, 3, 5, 8, 7}} {
		if got := numbers(list); got != want {
			t.Errorf("numbers(%v) = %q, want %q", list, got, want)
		}
	}
}

func TestWhatATaskAsksForInWords(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		spec v1.GPUTaskSpec
		want string
	}{
		{"nothing is one GPU", v1.GPUTaskSpec{}, "1 GPU"},
		{"a share", v1.GPUTaskSpec{GPUAmount: "0.46", GPU: "rtx4090"}, "0.46 of a GPU of rtx4090"},
		{"a MIG slice", v1.GPUTaskSpec{GPUProfile: "1g.10gb", GPU: "h100"}, "1 MIG slice of profile 1g.10gb on h100"},
		{"MIG slices for roles", v1.GPUTaskSpec{Roles: []v1.Role{{Name: "a", GPUProfile: "1g.10gb", GPUAmount: "2"}, {Name: "b"}}}, "a: 2 MIG slices of profile 1g.10gb; b: 1 GPU; all of them together"},
		{"several GPUs with all else", v1.GPUTaskSpec{GPUAmount: "2", GPUMemory: "40G", CPU: "8000m", Memory: "16Gi", NodePool: "p"}, "2 GPUs with at least 40G of memory each, 8 CPU, 16Gi memory; in node pool p"},
		{"a gang that may start with fewer", v1.GPUTaskSpec{Replicas: new(int32(4)), MinAvailable: new(int32(2))}, "4 Pods, each 1 GPU; at least 2 of them together"},
		{"an array", v1.GPUTaskSpec{Replicas: new(int32(3)), Completions: new(int32(6))}, "6 Pods, each 1 GPU; 3 at a time, each by itself"},
		{"roles", v1.GPUTaskSpec{GPU: "h100", GPUAmount: "8", Roles: []v1.Role{{Name: "launcher", GPUAmount: "0", CPU: "1"}, {Name: "worker", Replicas: new(int32(2))}}},
			"launcher: no GPU, 1 CPU; 2 × worker: 8 GPUs of h100 each; all of them together"},
		{"a topology that is a wish", v1.GPUTaskSpec{Replicas: new(int32(2)), Topology: &v1.Topology{Level: "rack"}}, "2 Pods, each 1 GPU; all of them together; if possible in one rack"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := Request(&v1.GPUTask{Spec: test.spec}); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestHowMuchATaskAsksFor(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]v1.GPUTaskSpec{
		"1 GPU":                        {GPU: "h100"},
		"3 × 2 GPUs":                   {GPU: "h100", GPUAmount: "2", Replicas: new(int32(3))},
		"6 × 0.5 of a GPU":             {GPUAmount: "0.5", Replicas: new(int32(3)), Completions: new(int32(6))},
		"2 × 8 GPUs + 1 Pod without":   {GPUAmount: "8", Roles: []v1.Role{{Name: "launcher", GPUAmount: "0"}, {Name: "worker", Replicas: new(int32(2))}}},
		"8 GPUs + 2 × 1 GPU of a100":   {GPU: "h100", GPUAmount: "8", Roles: []v1.Role{{Name: "a"}, {Name: "b", GPU: "a100", GPUAmount: "1", Replicas: new(int32(2))}}},
		"2 MIG slices of profile 1g.a": {GPU: "h100", GPUProfile: "1g.a", GPUAmount: "2"},
		"1 Pod without GPUs":           {GPUAmount: "0"},
	} {
		if got := Amount(&v1.GPUTask{Spec: spec}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHowManyPodsRunOrAreDone(t *testing.T) {
	t.Parallel()
	three := v1.GPUTaskSpec{Replicas: new(int32(3))}
	array := v1.GPUTaskSpec{Replicas: new(int32(2)), Completions: new(int32(6))}
	for want, task := range map[string]v1.GPUTask{
		"2 of 3 run":  {Spec: three, Status: v1.GPUTaskStatus{Phase: v1.PhaseRunning, Running: 2}},
		"1 of 3 runs": {Spec: three, Status: v1.GPUTaskStatus{Phase: v1.PhasePending, Running: 1}},
		"3 of 3 done": {Spec: three, Status: v1.GPUTaskStatus{Phase: v1.PhaseSucceeded, Succeeded: 3}},
		"4 of 6 done": {Spec: array, Status: v1.GPUTaskStatus{Phase: v1.PhaseFailed, Succeeded: 4}},
	} {
		if got := Pods(&task); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFailuresInWords(t *testing.T) {
	t.Parallel()
	exhausted := []metav1.Condition{{Type: v1.ConditionFailed, Status: metav1.ConditionTrue, Reason: v1.ReasonBackoffLimitExceeded}}
	for want, task := range map[string]v1.GPUTask{
		"none so far, no retries":                      {Spec: v1.GPUTaskSpec{BackoffLimit: new(int32(0))}},
		"1 failure, no retries":                        {Spec: v1.GPUTaskSpec{BackoffLimit: new(int32(0))}, Status: v1.GPUTaskStatus{Conditions: exhausted}},
		"none so far, at most 6 retries (RestartTask)": {},
		"2 failures, at most 1 retry (RestartPod)":     {Spec: v1.GPUTaskSpec{BackoffLimit: new(int32(1)), FailurePolicy: v1.RestartPod}, Status: v1.GPUTaskStatus{Restarts: 1, Conditions: exhausted}},
		"1 failure, at most 3 retries (RestartTask)":   {Spec: v1.GPUTaskSpec{BackoffLimit: new(int32(3))}, Status: v1.GPUTaskStatus{Restarts: 1}},
	} {
		if got := failureText(&task); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDividedGPUsAreCountedApart(t *testing.T) {
	t.Parallel()
	for want, sum := range map[string]analysis.Sum{
		"1 node, 8 of 8 GPUs free":                                    {Nodes: 1, GPUs: 8, Free: 8},
		"2 nodes, 40 of 40 whole GPUs free, 11 of 11 MIG slices free": {Nodes: 2, GPUs: 42, Free: 40, Divided: 2, Slices: 11, FreeSlices: 11},
		"1 node, 0 of 1 MIG slice free":                               {Nodes: 1, GPUs: 1, Divided: 1, Slices: 1},
	} {
		if got := sumText(&sum); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSignsOfGPUs(t *testing.T) {
	t.Parallel()
	node := &analysis.NodeUse{GPUs: []analysis.Card{
		{Use: analysis.CardFree},
		{Use: analysis.CardBusy, Percent: 100},
		{Use: analysis.CardShared, Percent: 5},
		{Use: analysis.CardShared, Percent: 46},
		{Use: analysis.CardShared, Percent: 99},
		{Use: analysis.CardReserved},
		{Use: analysis.CardClosed},
		{Use: analysis.CardUnhealthy, Percent: 100},
	}}
	if got := heatmap(&Page{}, node); got != ".#149r-x" {
		t.Errorf("got %q", got)
	}
	free, busy := analysis.Slice{Use: analysis.CardFree}, analysis.Slice{Use: analysis.CardBusy}
	divided := &analysis.NodeUse{}
	for _, list := range [][]analysis.Slice{{free, free}, {free, busy}, {busy, busy}, nil} {
		divided.GPUs = append(divided.GPUs, analysis.Card{Use: analysis.CardDivided, Slices: list})
	}
	if got := heatmap(&Page{}, divided); got != "omM-" {
		t.Errorf("divided GPUs are %q", got)
	}
	if got, want := heatmap(&Page{Colours: true}, node), "\x1b[32m.\x1b[0m\x1b[34m#\x1b[0m\x1b[35m149\x1b[0m\x1b[33mr\x1b[0m\x1b[2m-\x1b[0m\x1b[31mx\x1b[0m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnAssignmentThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{inventory.AssignmentAnnotation: "{"}}}
	if got := assignedGPUs(pod); len(got) != 1 || got[0] != "<unreadable>" {
		t.Errorf("got %v", got)
	}
}

func TestOnlySomeProblemsAreShown(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	problems(&Page{Writer: &out}, []string{"a", "b", "c", "d", "e"})
	if want := "\n5 things in the cluster could not be read and are not counted:\n  a\n  b\n  c\n  and 2 more\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
