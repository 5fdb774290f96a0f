// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// diary writes a journal about a small cluster, as the scheduler does.
type diary struct {
	t       *testing.T
	text    bytes.Buffer
	cluster *placement.Cluster
	digest  journal.Digest
	changes uint64
	number  int
}

func newDiary(t *testing.T) *diary {
	t.Helper()
	policy := packing.New(packing.Default())
	d := &diary{t: t, cluster: placement.NewCluster(policy)}
	var lines []journal.Line
	for i := range 4 {
		node := placement.Node{
			Name: fmt.Sprintf("h100-%d", i), CPU: 64000, Memory: 1 << 19, Slots: 110, Model: "h100", Domains: []string{"-", "-", fmt.Sprintf("leaf-%d", i/2)},
		}
		for range 8 {
			node.GPUs = append(node.GPUs, placement.GPU{Memory: 81559, Group: -1, NUMA: -1})
		}
		if err := d.cluster.SetNode(node); err != nil {
			t.Fatal(err)
		}
		d.digest.AddNode(&node)
		lines = append(lines, journal.Line{Node: journal.NodeOf(&node)})
	}
	d.write(&journal.Line{Checkpoint: &journal.Checkpoint{
		Version: journal.Version, Run: "a", Time: testTime, Digest: d.digest.String(), Nodes: len(lines), Levels: []string{"zone", "rack", "leaf"},
		Policy: journal.Packing, Memory: journal.MemoryOf(policy.Memory()),
	}})
	for i := range lines {
		d.write(&lines[i])
	}
	return d
}

func (d *diary) write(line *journal.Line) {
	d.t.Helper()
	text, err := json.Marshal(line)
	if err != nil {
		d.t.Fatal(err)
	}
	d.text.Write(append(text, '\n'))
}

// places places Pods on a node, and writes that.
func (d *diary) places(name, node string, cards ...int) {
	d.t.Helper()
	pod := placement.Pod{Name: "uid-" + name, Node: node, Use: placement.Use{CPU: 1000, GPUs: cards, Percent: placement.Card}}
	if err := d.cluster.Place(pod); err != nil {
		d.t.Fatal(err)
	}
	d.digest.AddPod(&pod)
	d.changes++
	written := journal.PodOf(&pod)
	written.Pod = "default/" + name
	d.write(&journal.Line{N: d.changes, Pod: written})
}

// decides decides on a gang of so many Pods with so many GPUs each. change changes what is written.
func (d *diary) decides(name string, pods, gpus int, change func(*journal.Decision)) {
	d.t.Helper()
	gang := &placement.Gang{Level: 3, Roles: []placement.Role{{Shape: placement.Shape{CPU: 1000, GPUs: gpus, Models: []string{"h100"}}, Min: pods, Max: pods}}}
	q := &journal.Question{Kind: journal.Plan, After: d.changes}
	q.SetGang(gang, nil)
	plan, fits, err := d.cluster.Plan(gang)
	if err != nil {
		d.t.Fatal(err)
	}
	q.SetSearch(d.cluster.LastSearch())
	d.number++
	decision := &journal.Decision{
		Number: d.number, Time: testTime.Add(time.Duration(d.number) * time.Second), Run: "a", Subject: "default/" + name, UID: "uid-" + name, Gang: pods > 1,
		Pods: pods, Need: pods, Outcome: journal.Waits, Why: "needs more than there is", After: d.changes, Digest: d.digest.String(),
		Asked: []*journal.Question{q}, Microseconds: 345,
	}
	if fits {
		q.SetPlan(plan)
		decision.Outcome, decision.Why = journal.Placed, fmt.Sprintf("the cheapest of %d nodes with room, of %d", q.Room, q.Nodes)
		for i, one := range q.Places {
			decision.Places = append(decision.Places, journal.Seat{Pod: fmt.Sprintf("default/%s-%d", name, i), Node: one.Node, GPUs: one.GPUs, Percent: one.Percent})
		}
	}
	if change != nil {
		change(decision)
	}
	d.write(&journal.Line{Decision: decision})
	for i, one := range decision.Places {
		d.places(fmt.Sprintf("%s-%d", name, i), one.Node, one.GPUs...)
	}
}

// aDiary is a journal of some decisions.
func aDiary(t *testing.T) *diary {
	t.Helper()
	d := newDiary(t)
	d.places("old", "h100-3", 0, 1)
	d.decides("small", 1, 1, nil)
	d.decides("train", 2, 4, nil)
	d.decides("huge", 8, 8, func(one *journal.Decision) {
		one.Refused, one.Claimed = "1 node with room refuses it: node(s) had untolerated taint(s)", []string{"h100-2"}
		one.Refusals = []journal.Refusal{{Node: "h100-0", Plugin: "TaintToleration", Reason: "node(s) had untolerated taint(s)"}}
	})
	d.decides("queued", 1, 1, func(one *journal.Decision) {
		one.Outcome, one.Why, one.Asked, one.Places = journal.Queued, "its queue has reached its limit", nil, nil
	})
	d.decides("whole", 1, 8, nil)
	for i := range 3 {
		d.decides(fmt.Sprintf("late-%d", i), 1, 1, nil)
	}
	return d
}

// file writes the journal into a file.
func (d *diary) file(name string, text []byte) string {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

// replayed runs the command with the journal as its input.
func (d *diary) replayed() *fixture {
	d.t.Helper()
	f := newFixture(d.t)
	f.env.In = &d.text
	return f
}

func TestReplay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ golden, args string }{
		"the same policy":         {"replay", "replay -"},
		"another policy":          {"replay-policy", "replay - --policy most-free"},
		"few differences":         {"replay-limit", "replay - --policy most-free --limit 1"},
		"in JSON":                 {"replay-json", "replay - --policy most-free -o json"},
		"a decision":              {"replay-decision", "replay - --decision 2"},
		"a decision that refuses": {"replay-refused", "replay - --decision 3"},
		"a decision of a queue":   {"replay-queued", "replay - --decision 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			aDiary(t).replayed().golden(test.golden, strings.Fields(test.args)...)
		})
	}
}

// A version that decides differently: the recorded answer is not this one's.
func TestReplayShowsWhatAnotherVersionWouldDo(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	d.places("old", "h100-3", 0, 1)
	d.decides("small", 1, 1, func(one *journal.Decision) {
		one.Asked[0].Places[0].Node, one.Places[0].Node = "h100-0", "h100-0"
	})
	d.replayed().golden("replay-version", "replay", "-")
}

func TestReplayReadsFilesAndDirectories(t *testing.T) {
	t.Parallel()
	d := aDiary(t)
	text := d.text.Bytes()
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	torn := append(bytes.Clone(text), []byte(`{"decision":{"numb`)...)
	segments := filepath.Dir(d.file(journal.SegmentName(7), torn))
	for name, path := range map[string]string{
		"a file": d.file("journal.jsonl", text), "a compressed file": d.file("journal.gz", compressed.Bytes()), "a torn file": d.file("torn", torn), "a directory": segments,
	} {
		f := newFixture(t)
		if err := f.run("replay", path, "-o", "jsonpath={.decisions} {.same}"); err != nil || f.out.String() != "8 7" {
			t.Errorf("%s: %q, error %v", name, f.out.String(), err)
		}
	}
}

func TestReplayOfWhatIsNoJournal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ in, args, want string }{
		"nothing":                {"", "replay -", "-: there is no checkpoint: it is not a journal of gpu-scheduler, or an empty one"},
		"another file":           {"hello\nworld\n", "replay -", "-: line 1: invalid character 'h' looking for beginning of value"},
		"another version":        {`{"checkpoint":{"version":9}}` + "\n", "replay -", "-: line 1: checkpoint: version: is 9, and this program reads version 1 only"},
		"no such file":           {"", "replay /nowhere/journal", "stat /nowhere/journal: no such file or directory"},
		"no file":                {"", "replay", "replay needs one file, a directory, or - for stdin, got 0: kubectl gputask replay FILE"},
		"no such policy":         {"", "replay - --policy luck", `--policy: there is no policy "luck", the policies are packing, fewest-free, most-free, first-node`},
		"no such decision":       {aDiary(t).text.String(), "replay - --decision 99", "--decision=99: the journal has no decision 99: it has 1 to 8"},
		"a negative limit":       {"", "replay - --limit -1", "--limit=-1: must not be negative"},
		"a negative decision":    {"", "replay - --decision=-1", "--decision=-1: must be the number of a decision, from 1"},
		"an unknown output form": {"", "replay - -o csv", "--output=csv: must be one of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.env.In = strings.NewReader(test.in)
			if got := errorText(f.run(strings.Fields(test.args)...)); !strings.HasPrefix(got, test.want) {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}

// A journal of which a line is missing is not taken for a scheduler that decides differently.
func TestReplayOfADamagedJournal(t *testing.T) {
	t.Parallel()
	d := aDiary(t)
	lines := strings.SplitAfter(d.text.String(), "\n")
	d.text.Reset()
	for _, line := range lines {
		if !strings.Contains(line, `"pod":"default/old"`) {
			d.text.WriteString(line)
		}
	}
	d.replayed().golden("replay-incomplete", "replay", "-")
	changed := aDiary(t)
	text := strings.Replace(changed.text.String(), `"cpu":1000,"gpus":[0,1]`, `"cpu":1000,"gpus":[6,7]`, 1)
	changed.text.Reset()
	changed.text.WriteString(text)
	changed.replayed().golden("replay-damaged", "replay", "-")
}
