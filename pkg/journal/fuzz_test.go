// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// replaying is what reading, replaying and explaining a journal may take: it builds a cluster of up
// to 1,024 GPUs for a few bytes, more than once.
var replaying = fuzzlimit.Limits{Bytes: 64 << 20, PerByte: 64 << 10, CPU: 10 * time.Second} //nolint:gochecknoglobals // a constant

// FuzzRead reads any text as a journal. What is accepted has its decisions in order and once, and
// each of them can be shown, explained, and asked again with every policy: the answers are the same
// each time, and every decision is counted once.
func FuzzRead(f *testing.F) {
	for _, text := range journals(f) {
		f.Add([]byte(text), []byte(nil))
	}
	f.Fuzz(func(t *testing.T, text []byte, edits []byte) {
		text = fuzzjson.EditLines(text, edits)
		fuzzlimit.Check(t, replaying, len(text), func() { checkJournal(t, text) })
	})
}

// journals are real ones, and some that are damaged.
func journals(f *testing.F) []string {
	f.Helper()
	s := newScribe(f)
	s.decide(30)
	s.decide(50)
	whole := s.text()
	s.checkpoint()
	s.decide(70)
	two := s.text()
	ranked := newScribe(f)
	ranked.write(&Line{Decision: &Decision{Number: 1, Run: "r", Digest: ranked.digest.String(), Outcome: Ranked, Asked: []*Question{
		{Kind: Rank, Roles: []Role{{Shape: &Shape{CPU: 1}, Min: 1, Max: 1}}, Fits: true, Ranked: 1, Best: []Candidate{{Node: "a"}}},
		{Kind: On, Node: "a", Roles: []Role{{Shape: &Shape{GPUs: 1, Models: []string{"h100"}, Selector: `{"nodeSelector":{"a":"b"}}`}}}, Trial: []Trial{{Removed: "x"}, {Placed: &Pod{Name: "y", Node: "a", GPUs: []int{1}, Percent: 100}}}},
	}}})
	bestless := strings.Replace(ranked.text(), `"best":[{"node":"a","cost":0}],`, "", 1)
	return []string{
		whole, two, ranked.text(), bestless, whole[:len(whole)*2/3], whole + "\n{", "\n",
		strings.Replace(whole, `"role":0`, `"role":-1`, 1), strings.Replace(whole, `"number":2`, `"number":9223372036854775807`, 1),
		strings.Replace(whole, `"number":1`, `"number":-9223372036854775808`, 1), strings.Replace(two, `"max":1`, `"max":1000000000`, 1),
		`{"checkpoint":{"version":1,"policy":"none"}}`,
	}
}

func checkJournal(t *testing.T, text []byte) {
	t.Helper()
	read, err := Read(bytes.NewReader(text))
	if err != nil {
		return
	}
	decisions := read.Decisions()
	if !slices.IsSortedFunc(decisions, func(a, b Decision) int { return cmp.Compare(a.Number, b.Number) }) {
		t.Error("the decisions are not in order")
	}
	if read.Lost() < 0 {
		t.Errorf("%d decisions are lost", read.Lost())
	}
	for i := range decisions {
		checkDecision(t, read, &decisions[i], i)
	}
	for _, policy := range append(Policies(), "") {
		report, err := read.Replay(Options{Policy: policy})
		if err != nil {
			continue
		}
		checkReport(t, report, len(decisions))
		again, err := read.Replay(Options{Policy: policy})
		if diff := gocmp.Diff(report, again); err != nil || diff != "" {
			t.Errorf("replayed again (-first +second), error %v:\n%s", err, diff)
		}
	}
}

func checkDecision(t *testing.T, read *Journal, d *Decision, at int) {
	t.Helper()
	found, err := read.Decision(d.Number)
	if err != nil || found != &read.Decisions()[at] {
		t.Errorf("decision %d is not found by its number: %v", d.Number, err)
	}
	if read.LastNumber() < d.Number {
		t.Errorf("decision %d comes after the last one, %d", d.Number, read.LastNumber())
	}
	explained, err := read.Explain(d.Number, 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(explained.Candidates) > 3 || explained.All < len(explained.Candidates) {
		t.Errorf("decision %d has %d candidates of %d", d.Number, len(explained.Candidates), explained.All)
	}
	if explained.State == nil {
		return
	}
	for i := range explained.State.Nodes {
		for _, card := range explained.State.Nodes[i].Cards {
			if card.Free < 0 || card.Free > placement.Card {
				t.Errorf("node %s has a card of which %d %% are free", explained.State.Nodes[i].Name, card.Free)
			}
		}
	}
}

func checkReport(t *testing.T, report *Report, decisions int) {
	t.Helper()
	counted := report.Same + report.Different
	for _, count := range report.NotJudged {
		counted += count
	}
	if counted != decisions || report.Decisions != decisions {
		t.Errorf("of %d decisions %d are counted: %+v", decisions, counted, report)
	}
	if report.Different != len(report.Differences) {
		t.Errorf("%d decisions would be different, %d are described", report.Different, len(report.Differences))
	}
}

// FuzzLine reads any text as one line of a journal, takes it into the engine's types, and writes it
// again: what the engine understands means the same afterwards.
func FuzzLine(f *testing.F) {
	for line := range strings.SplitSeq(journals(f)[1], "\n") {
		f.Add([]byte(line), []byte(nil))
	}
	f.Add([]byte(`{"n":1,"node":{"name":"a","others":{"a/b":1},"domains":["z","r"],"gpus":[{"count":8,"memory":1,"group":0,"numa":1},{"count":-1},{"count":1000000000}]}}`), []byte(nil))
	f.Add([]byte(`{"n":2,"learned":{"shape":{"gpus":1,"preference":"{}","selector":"without GPUs:{}","nodes":[{"hostnames":true,"names":["a"]}]},"ending":true}}`), []byte(nil))
	f.Fuzz(func(t *testing.T, text []byte, edits []byte) {
		text = fuzzjson.Edit(text, edits)
		line := &Line{}
		if err := json.Unmarshal(text, line); err != nil {
			return
		}
		fuzzlimit.Check(t, fuzzlimit.Limits{Bytes: 4 << 20, PerByte: 64 << 10, CPU: 2 * time.Second}, len(text), func() { checkLine(t, line) })
	})
}

func checkLine(t *testing.T, line *Line) {
	t.Helper()
	if line.Node != nil {
		node := line.Node.Engine()
		again := NodeOf(&node).Engine()
		if diff := gocmp.Diff(node, again); diff != "" {
			t.Errorf("node (-first +second):\n%s", diff)
		}
	}
	if line.Pod != nil {
		pod := line.Pod.Engine()
		again := PodOf(&pod).Engine()
		if diff := gocmp.Diff(pod, again); diff != "" {
			t.Errorf("Pod (-first +second):\n%s", diff)
		}
	}
	if line.Learned != nil && line.Learned.Shape != nil {
		checkShape(t, line.Learned.Shape)
	}
	if line.Checkpoint != nil && line.Checkpoint.Memory != nil {
		memory, err := line.Checkpoint.Memory.Engine()
		if err != nil {
			return
		}
		if _, err := MemoryOf(memory).Engine(); err != nil {
			t.Errorf("what a policy has learned can't be read again: %v", err)
		}
	}
}

func checkShape(t *testing.T, described *Shape) {
	t.Helper()
	shape, err := described.Engine()
	if err != nil {
		return
	}
	again, err := ShapeOf(&shape).Engine()
	if err != nil {
		t.Fatalf("shape %s can't be read again: %v", shape.String(), err)
	}
	if shape.Key() != again.Key() {
		t.Errorf("shape %q became %q", shape.Key(), again.Key())
	}
}

// FuzzSegmentName reads any name of a file. The name of a segment leads to its number and back, and
// names are in the order of their numbers.
func FuzzSegmentName(f *testing.F) {
	f.Add("journal-000000000007.jsonl", uint64(7))
	f.Add("journal-7.jsonl", uint64(999_999_999_999))
	f.Add("journal-+7.jsonl", uint64(18446744073709551615))
	f.Add("other", uint64(0))
	f.Fuzz(func(t *testing.T, name string, number uint64) {
		if back, ok := SegmentNumber(SegmentName(number)); !ok || back != number {
			t.Errorf("segment %d has the name %s, which is that of segment %d", number, SegmentName(number), back)
		}
		if read, ok := SegmentNumber(name); ok && SegmentName(read) != name {
			t.Errorf("%q is taken for the name of segment %d, which is %s", name, read, SegmentName(read))
		}
	})
}
