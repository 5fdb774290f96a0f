// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/reservation"
	recorder "falldio.github.io/gpu-controller/scheduler/journal"
)

// records records the decisions of a planner from now on. stop returns the journal.
func (f *fixture) records(most int64) (stop func() *journal.Journal) {
	f.t.Helper()
	in, err := recorder.New(recorder.Options{
		Directory: f.t.TempDir(), MaxBytes: most, Run: "test", Levels: f.args.Levels().Names(), Clock: clock.RealClock{}, Logger: f.logger,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.record(in)
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.Run(ctx)
	}()
	return func() *journal.Journal {
		f.t.Helper()
		cancel()
		<-done
		if in.Dropped() > 0 {
			f.t.Errorf("%d records were dropped", in.Dropped())
		}
		response := httptest.NewRecorder()
		in.ServeHTTP(response, httptest.NewRequest(http.MethodGet, recorder.Path, nil))
		read, err := journal.Read(bytes.NewReader(response.Body.Bytes()))
		if err != nil {
			f.t.Fatal(err)
		}
		return read
	}
}

// wantSame replays a journal, which must show no difference, and checks the clusters before its decisions.
func wantSame(t *testing.T, read *journal.Journal) *journal.Report {
	t.Helper()
	report, err := read.Replay(journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range report.Differences {
		t.Errorf("%+v", report.Differences[i])
	}
	if report.Damaged > 0 || report.Lost > 0 {
		t.Errorf("damaged %d, lost %d: %v", report.Damaged, report.Lost, report.NotJudged)
	}
	for _, d := range read.Decisions() {
		state, err := read.Before(d.Number)
		if err != nil {
			t.Fatalf("decision %d: %v", d.Number, err)
		}
		if state.Digest != d.Digest {
			t.Errorf("before decision %d the cluster has digest %s, want %s", d.Number, state.Digest, d.Digest)
		}
	}
	return report
}

// randomHistory is a random history of a cluster.
type randomHistory struct {
	*fixture
	dice    *rand.Rand
	waiting map[string]*corev1.Pod
	placed  map[string]*corev1.Pod
	next    int
}

func newRandomHistory(t *testing.T, seed uint64) *randomHistory {
	t.Helper()
	r := &randomHistory{
		fixture: newFixture(t), dice: rand.New(rand.NewPCG(seed, 29)), waiting: map[string]*corev1.Pod{}, placed: map[string]*corev1.Pod{},
	}
	return r
}

// nodeComes adds one of several kinds of nodes.
func (r *randomHistory) nodeComes() {
	i := len(r.names)
	name := fmt.Sprintf("node-%d", i)
	r.addNode(name, fmt.Sprintf("leaf-%d", i%3), []int{2, 4, 8}[r.dice.IntN(3)])
	r.change(name, func(n *corev1.Node) {
		n.Labels[v1.LabelGPUModel] = []string{"a100", "h100", "t4"}[r.dice.IntN(3)]
		n.Labels["disk"] = []string{"ssd", "hdd"}[r.dice.IntN(2)]
		n.Status.Allocatable[corev1.ResourceMemory] = *resource.NewQuantity(int64(200+r.dice.IntN(100))<<30+int64(r.dice.IntN(1000))<<20, resource.BinarySI)
		n.Status.Allocatable[v1.ResourceGPUPercent] = *resource.NewQuantity(100*n.Status.Allocatable.Name(v1.ResourceGPU, resource.DecimalSI).Value(), resource.DecimalSI)
	})
}

// arrives adds a gang, or a Pod in no gang.
func (r *randomHistory) arrives() {
	r.next++
	name := fmt.Sprintf("g%d", r.next)
	gpus, priority, count := 1+r.dice.IntN(3), int32(r.dice.IntN(3)), 1
	shared, picky, leaf, rack := r.dice.IntN(4) == 0, r.dice.IntN(4) == 0, r.dice.IntN(4) == 0, r.dice.IntN(3) == 0
	model := []string{"", "", "a100", "h100"}[r.dice.IntN(4)]
	if r.dice.IntN(2) == 0 {
		count = 2 + r.dice.IntN(5)
	}
	for i := range count {
		p := pod(fmt.Sprintf("%s-%d", name, i), gpus, prioritized(priority))
		requests := p.Spec.Containers[0].Resources.Requests
		requests[corev1.ResourceCPU] = *resource.NewQuantity(int64(1+r.next%5), resource.DecimalSI)
		if shared {
			delete(requests, v1.ResourceGPU)
			requests[v1.ResourceGPUPercent] = resource.MustParse(strconv.Itoa(20 + 10*r.dice.IntN(5)))
		}
		if picky {
			p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		}
		if rack {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 5, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"hdd"}}}},
			}}}}
		}
		if model != "" {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, "model", model)
			if p.Spec.NodeSelector == nil {
				p.Spec.NodeSelector = map[string]string{}
			}
			p.Spec.NodeSelector[v1.LabelGPUModel] = model
		}
		if count > 1 {
			in(name, 1+r.dice.IntN(count), i)(p)
			p.Labels[v1.LabelMinAvailable] = strconv.Itoa(count)
			if leaf {
				inOneLeaf(p)
			}
		}
		r.waiting[p.Name] = p
		r.comes(p)
	}
}

// cycle is the scheduling cycle of a Pod that waits.
func (r *randomHistory) cycle(name string) {
	p := r.waiting[name]
	scored := r.dice.IntN(4) == 0
	decision := r.Decide(p, r.nodes(), scored)
	if decision.Order != nil {
		nodes := slices.SortedFunc(maps.Keys(decision.Order), func(a, b string) int { return decision.Order[a] - decision.Order[b] })
		node := nodes[r.dice.IntN(min(2, len(nodes)))]
		number, err := r.Reserve(p, node)
		if err != nil {
			return
		}
		decision.Node, decision.Plan = node, number
	}
	if decision.Node == "" {
		if r.dice.IntN(2) == 0 {
			r.Preempt(r.t.Context(), p)
		}
		return
	}
	if _, err := r.reserve(p, decision); err != nil {
		return
	}
	delete(r.waiting, name)
	r.placed[name] = at(p, decision.Node)
}

// step is something that happens.
func (r *randomHistory) step() {
	switch choice := r.dice.IntN(20); {
	case choice < 5:
		r.arrives()
	case choice < 8:
		r.endOne()
		r.endOne()
		r.giveUp()
	case choice == 8 && len(r.names) < 12:
		r.nodeComes()
	case choice == 9:
		r.change(r.aNode(), func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
	case choice == 10 || choice == 11:
		r.reserveSomewhere()
	default:
		for _, name := range slices.Sorted(maps.Keys(r.waiting)) {
			if r.dice.IntN(3) == 0 {
				r.cycle(name)
			}
		}
	}
}

func (r *randomHistory) aNode() string { return r.names[r.dice.IntN(len(r.names))] }

func (r *randomHistory) endOne() {
	names := slices.Sorted(maps.Keys(r.placed))
	if len(names) == 0 {
		return
	}
	name := names[r.dice.IntN(len(names))]
	r.goes(r.placed[name])
	delete(r.placed, name)
}

// giveUp deletes Pods that wait if there are many.
func (r *randomHistory) giveUp() {
	for _, name := range slices.Sorted(maps.Keys(r.waiting)) {
		if len(r.waiting) < 20 {
			return
		}
		r.goes(r.waiting[name])
		delete(r.waiting, name)
	}
}

// reserveSomewhere keeps a card for a Pod that waits, or for one that never comes.
func (r *randomHistory) reserveSomewhere() {
	node, who := r.aNode(), "nobody"
	if names := slices.Sorted(maps.Keys(r.waiting)); len(names) > 0 && r.dice.IntN(4) > 0 {
		who = names[r.dice.IntN(len(names))]
	}
	kept := moved(who, fmt.Sprintf("%s-%d", node, r.dice.IntN(2)))
	if r.dice.IntN(2) == 0 {
		kept.Kind = reservation.Start
	}
	r.keep(node, kept)
}

// digest is that of the mirror's cluster, counted anew.
func (r *randomHistory) digest() (digest journal.Digest) {
	r.mirror.With(func(cluster *placement.Cluster) {
		cluster.Each(func(node *placement.Node, _ int) { digest.AddNode(node) }, digest.AddPod)
	})
	return digest
}

// What was recorded of a random history decides the same again, and the clusters before the decisions are those of the
// mirror.
func TestAReplayDecidesAsTheSchedulerDid(t *testing.T) {
	t.Parallel()
	outcomes, judged, repeated, decisions := map[journal.Outcome]int{}, 0, 0, 0
	for seed := range uint64(30) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			r := newRandomHistory(t, seed)
			stop := r.records(1 << 30)
			for range 4 {
				r.nodeComes()
			}
			for range 150 {
				r.step()
				if got, want := r.decisions.recorder.Position().Digest, r.digest(); got != want {
					t.Fatalf("the journal has a cluster with digest %s, the mirror has %s", got, want)
				}
			}
			read := stop()
			report := wantSame(t, read)
			for _, d := range read.Decisions() {
				outcomes[d.Outcome]++
			}
			judged, decisions = judged+report.Same, decisions+report.Decisions
			repeated += report.NotJudged["an equal request had just found no place, and nothing had become free since"]
		})
	}
	t.Logf("%d of %d decisions were judged, %d were repeated; %v", judged, decisions, repeated, outcomes)
	for _, outcome := range []journal.Outcome{journal.Placed, journal.Waits, journal.Ranked, journal.Preempts, journal.Moving} {
		if outcomes[outcome] == 0 {
			t.Errorf("no decision was %s: the histories are too simple", outcome)
		}
	}
	if judged < 1000 || judged < (decisions-repeated)*9/10 {
		t.Errorf("only %d of %d decisions were judged, %d were repeated", judged, decisions, repeated)
	}
}

// Every segment begins with a checkpoint from which the rest is replayed alike: what the policy has learned is in it.
func TestAReplayFromAnyCheckpointDecidesTheSame(t *testing.T) {
	t.Parallel()
	r := newRandomHistory(t, 77)
	stop := r.records(1 << 20) // segments of 64 KiB
	for range 6 {
		r.nodeComes()
	}
	for range 1200 {
		r.step()
	}
	read := stop()
	report := wantSame(t, read)
	if read.Checkpoints() < 4 || read.Decisions()[0].Number == 1 || report.Same < 200 {
		t.Errorf("%d checkpoints, first decision %d, %d the same: too few to say anything", read.Checkpoints(), read.Decisions()[0].Number, report.Same)
	}
	other, err := read.Replay(journal.Options{Policy: journal.MostFree})
	if err != nil {
		t.Fatal(err)
	}
	if other.Different == 0 || other.Damaged > 0 || other.Same+other.Different+len(other.NotJudged) == 0 {
		t.Errorf("another policy decides differently %d times, damaged are %d", other.Different, other.Damaged)
	}
	dearer := slices.ContainsFunc(other.Differences, func(d journal.Difference) bool { return d.More != nil && *d.More > 0 })
	if !dearer {
		t.Errorf("no other choice costs more by the prices of the recorded policy: %+v", other.Differences)
	}
}

// With kube-scheduler's filters, what they refused is in the journal, and is given when it is replayed.
func TestAReplayIsGivenWhatFiltersRefused(t *testing.T) {
	t.Parallel()
	refused, judged := 0, 0
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			o := newOracle(t, seed, randomWorld)
			stop := o.records(1 << 30)
			o.plan()
			read := stop()
			judged += wantSame(t, read).Same
			for _, d := range read.Decisions() {
				if len(d.Refusals) > 0 && d.Refused != "" {
					refused++
				}
			}
		})
	}
	if refused < 10 || judged < 50 {
		t.Errorf("filters refused something in %d decisions, %d were judged: too few to say anything", refused, judged)
	}
}

// Victims are given, and where the gang goes without them is decided again.
func TestAReplayIsGivenTheVictims(t *testing.T) {
	t.Parallel()
	preempted := 0
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			o := newPreemptionOracle(t, seed, &preemptionTally{})
			stop := o.records(1 << 30)
			o.comes(o.gang...)
			if o.decide(o.gang[0]).Node == "" {
				o.Preempt(t.Context(), o.gang[0])
			}
			read := stop()
			wantSame(t, read)
			for _, d := range read.Decisions() {
				if d.Outcome == journal.Preempts && len(d.Victims) > 0 && len(d.Asked) > 0 {
					preempted++
				}
			}
		})
	}
	if preempted < 10 {
		t.Errorf("Pods were preempted %d times: too few to say anything", preempted)
	}
}
