// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

var beginning = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// scribe writes a journal about two nodes with two GPUs each.
type scribe struct {
	t       testing.TB
	lines   []string
	cluster *placement.Cluster
	digest  Digest
	changes uint64
	number  int
}

func newScribe(tb testing.TB) *scribe {
	tb.Helper()
	s := &scribe{t: tb, cluster: placement.NewCluster(packing.New(packing.Default()))}
	for _, name := range []string{"a", "b"} {
		node := placement.Node{Name: name, CPU: 8000, Memory: 1000, Slots: 10, Model: "h100", Domains: []string{"leaf"}, GPUs: []placement.GPU{{Memory: 1, Group: -1}, {Memory: 1, Group: -1, Broken: name == "b"}}}
		if err := s.cluster.SetNode(node); err != nil {
			tb.Fatal(err)
		}
	}
	s.checkpoint()
	return s
}

func (s *scribe) write(line *Line) {
	s.t.Helper()
	text, err := json.Marshal(line)
	if err != nil {
		s.t.Fatal(err)
	}
	s.lines = append(s.lines, string(text))
}

// checkpoint begins a segment.
func (s *scribe) checkpoint() {
	s.t.Helper()
	var lines []Line
	head := &Checkpoint{Version: Version, Run: "r", Time: beginning, Changes: s.changes, Decisions: s.number, Policy: Packing, Memory: MemoryOf(packing.New(packing.Default()).Memory())}
	s.digest = 0
	s.cluster.Each(
		func(node *placement.Node, _ int) {
			head.Nodes++
			s.digest.AddNode(node)
			lines = append(lines, Line{Node: NodeOf(node)})
		},
		func(pod *placement.Pod) {
			head.Pods++
			s.digest.AddPod(pod)
			lines = append(lines, Line{Pod: PodOf(pod)})
		},
	)
	head.Digest = s.digest.String()
	s.write(&Line{Checkpoint: head})
	for i := range lines {
		s.write(&lines[i])
	}
}

// decide places a Pod with a share of a GPU.
func (s *scribe) decide(share int) {
	s.t.Helper()
	gang := &placement.Gang{Roles: []placement.Role{{Shape: placement.Shape{CPU: 10, Share: share}, Min: 1, Max: 1}}}
	q := &Question{Kind: Plan, After: s.changes}
	q.SetGang(gang, nil)
	plan, fits, err := s.cluster.Plan(gang)
	if err != nil || !fits {
		s.t.Fatalf("fits: %t, error %v", fits, err)
	}
	q.SetPlan(plan)
	s.number++
	s.write(&Line{Decision: &Decision{
		Number: s.number, Time: beginning, Run: "r", Subject: "default/p", Outcome: Placed, After: s.changes, Digest: s.digest.String(), Asked: []*Question{q},
	}})
	pod := placement.Pod{Name: fmt.Sprint("uid-", s.number), Node: plan.Members[0].Node, Use: plan.Members[0].Use}
	if err := s.cluster.Place(pod); err != nil {
		s.t.Fatal(err)
	}
	s.digest.AddPod(&pod)
	s.changes++
	written := PodOf(&pod)
	written.Pod, written.Gang, written.Seat = fmt.Sprint("default/p-", s.number), "default/train", true
	s.write(&Line{N: s.changes, Pod: written})
}

func (s *scribe) text() string { return strings.Join(s.lines, "\n") + "\n" }

func (s *scribe) read() *Journal {
	s.t.Helper()
	read, err := Read(strings.NewReader(s.text()))
	if err != nil {
		s.t.Fatal(err)
	}
	return read
}

func TestTheClusterBeforeADecision(t *testing.T) {
	t.Parallel()
	s := newScribe(t)
	s.decide(30)
	s.decide(50)
	s.checkpoint()
	s.decide(40)
	read := s.read()
	state, err := read.Before(2)
	if err != nil {
		t.Fatal(err)
	}
	node := func(name string, cards []Card, pods ...PodState) NodeState {
		return NodeState{Name: name, Model: "h100", Domains: []string{"leaf"}, Cards: cards, FreeCPU: 8000 - int64(10*len(pods)), FreeMemory: 1000, Pods: pods}
	}
	used := PodState{Label: "default/p-1", UID: "uid-1", Gang: "default/train", Seat: true, GPUs: []int{0}, Percent: 30}
	want := []NodeState{
		node("a", []Card{{Free: 70, Pods: []string{"default/p-1"}}, {Free: 100}}, used),
		node("b", []Card{{Free: 100}, {Free: 100, Broken: true}}),
	}
	if diff := cmp.Diff(want, state.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if d, err := read.Decision(2); err != nil || state.Digest != d.Digest || state.After != 1 {
		t.Errorf("the state is after %d with digest %s, error %v", state.After, state.Digest, err)
	}
	if _, err := read.Before(4); err == nil || err.Error() != "the journal has no decision 4: it has 1 to 3" {
		t.Errorf("error %v", err)
	}
	report, err := read.Replay(Options{})
	if err != nil || report.Same != 3 {
		t.Errorf("the replay says %+v, error %v", report, err)
	}
}

func TestWhatIsWrongWithAJournalIsSaid(t *testing.T) {
	t.Parallel()
	s := newScribe(t)
	s.decide(30)
	s.decide(50)
	good := s.lines
	second := newScribe(t)
	second.decide(20)
	for name, test := range map[string]struct {
		lines []string
		want  string // the error; empty for none
		torn  int
	}{
		"all is well":                      {good, "", 0},
		"a torn end":                       {append(slices.Clone(good), `{"decision":{"nu`), "", 1},
		"a torn end of a segment":          {slices.Concat(good, []string{`{"n":3,"po`}, second.lines), "", 1},
		"a line in the middle is no JSON":  {slices.Concat(good[:4], []string{"}"}, good[4:]), "line 5: invalid character", 0},
		"a line says nothing":              {append(slices.Clone(good), "{}"), "line 8: is none of checkpoint", 0},
		"another version":                  {[]string{strings.Replace(good[0], `"version":1`, `"version":2`, 1)}, "line 1: checkpoint: version: is 2, and this program reads version 1 only", 0},
		"the number of a decision is none": {slices.Concat(good[:3], []string{strings.Replace(good[3], `"number":1`, `"number":-1`, 1)}), "line 4: decision: number: must be at least 1, is -1", 0},
		"a place is that of no role":       {slices.Concat(good[:3], []string{strings.Replace(good[3], `"role":0`, `"role":-1`, 1)}), "line 4: decision: asked[0]: places[0]: role: there is no role -1", 0},
		"the best of some nodes is none":   {slices.Concat(good[:3], []string{`{"decision":{"number":1,"asked":[{"kind":"rank","fits":true,"ranked":1}]}}`}), "line 4: decision: asked[0]: best: is missing", 0},
		"there is no checkpoint":           {good[3:], "there is no checkpoint: it is not a journal of gpu-scheduler", 0},
		"the checkpoint is not complete":   {good[:2], ErrEmpty.Error(), 0},
		"there is nothing":                 {nil, ErrEmpty.Error(), 0},
		"a line of the beginning is after": {slices.Concat(good[5:], good), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, err := Read(strings.NewReader(strings.Join(test.lines, "\n")))
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want one with %q", err, test.want)
				}
				return
			}
			if err != nil || len(read.Torn()) != test.torn {
				t.Fatalf("error %v, torn lines %v", err, read.Torn())
			}
		})
	}
}

func TestANodeHasNoMoreCardsThanTheEngineRefuses(t *testing.T) {
	t.Parallel()
	huge := Node{Name: "a", GPUs: []GPUs{{Count: 1 << 40}, {Count: -1}, {Count: 1, Broken: true}, {Count: 1 << 40, Memory: 1}}}
	node := huge.Engine()
	if len(node.GPUs) != placement.MaxCards+1 {
		t.Errorf("it has %d", len(node.GPUs))
	}
	if err := placement.NewCluster(byFree{}).SetNode(node); err == nil {
		t.Error("the engine takes it")
	}
}

// Whatever is changed, no journal makes a scheduler look as if it decided differently.
func TestADamagedJournalIsNotTakenForADifference(t *testing.T) {
	t.Parallel()
	s := newScribe(t)
	for _, share := range []int{30, 50, 40} {
		s.decide(share)
	}
	for name, change := range map[string]func(string) string{
		"a Pod holds more":    func(text string) string { return strings.Replace(text, `"cpu":10,"gpus"`, `"cpu":11,"gpus"`, 1) },
		"a node has less":     func(text string) string { return strings.Replace(text, `"cpu":8000`, `"cpu":7000`, 1) },
		"a change is missing": func(text string) string { return strings.Replace(text, `{"n":1,`, `{"n":9,`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, err := Read(strings.NewReader(change(s.text())))
			if err != nil {
				t.Fatal(err)
			}
			report, err := read.Replay(Options{})
			if err != nil {
				t.Fatal(err)
			}
			if report.Different > 0 || report.Same == 3 {
				t.Errorf("the replay says %+v", report)
			}
		})
	}
}

func TestThePoliciesOrderNodesAsTheySay(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{FewestFree: "full", MostFree: "roomy", FirstNode: "a"} {
		priced, _, err := policyNamed(policy)
		if err != nil {
			t.Fatal(err)
		}
		cluster := placement.NewCluster(priced)
		for name, gpus := range map[string]int{"a": 4, "full": 2, "roomy": 8} {
			if err := cluster.SetNode(placement.Node{Name: name, CPU: 1000 * int64(gpus), Slots: 10, GPUs: make([]placement.GPU, gpus)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, shape := range []placement.Shape{{GPUs: 1}, {CPU: 100}} {
			if place, found := cluster.Find(cluster.Request(shape), cluster.Root()); !found || place.Node != want {
				t.Errorf("%s: %s goes to %s, want %s", policy, &shape, place.Node, want)
			}
		}
	}
	if err := CheckPolicy("luck"); err == nil || !strings.Contains(err.Error(), "packing, fewest-free, most-free, first-node") {
		t.Errorf("error %v", err)
	}
}

func TestSegmentsAreAppendedLineByLine(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	for _, part := range []string{"a\n", "b\ntor", "", "c\n"} {
		if _, err := Append(&text, strings.NewReader(part)); err != nil {
			t.Fatal(err)
		}
	}
	if got := text.String(); got != "a\nb\ntor\nc\n" {
		t.Errorf("%q", got)
	}
	if number, is := SegmentNumber(SegmentName(42)); !is || number != 42 {
		t.Errorf("%d, %t", number, is)
	}
	for _, name := range []string{"journal-x.jsonl", "journal-1", "other-1.jsonl"} {
		if _, is := SegmentNumber(name); is {
			t.Errorf("%s is taken for a segment", name)
		}
	}
}

func TestPlacesAreDescribedShortly(t *testing.T) {
	t.Parallel()
	for want, places := range map[string][]Place{
		"a (GPUs 0-3, 6)":          {{Node: "a", GPUs: []int{3, 1, 0, 2, 6}}},
		"a (GPU 1), b":             {{Node: "b"}, {Node: "a", GPUs: []int{1}}},
		"a (GPUs 0-1, 2 Pods)":     {{Node: "a", GPUs: []int{1}}, {Node: "a", GPUs: []int{0}}},
		"a, b, c and 2 more nodes": {{Node: "a"}, {Node: "b"}, {Node: "c"}, {Node: "d"}, {Node: "e"}},
		"a (2 Pods)":               {{Node: "a"}, {Node: "a"}},
	} {
		if got := describePlaces(places); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
