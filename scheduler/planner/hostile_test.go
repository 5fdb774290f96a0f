// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	goruntime "runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// hostileObjects is how many Pods come and go of which each mentions what no other does.
const hostileObjects = 10_000

// hostile returns a Pod that mentions as much as it can of what no other Pod does: a resource, labels, values,
// topology, a preference, a network target, a queue, a gang, an image of its task, and how long it runs.
func hostile(i int) *corev1.Pod {
	p := pod(fmt.Sprint("hostile-", i), 1)
	p.CreationTimestamp = metav1.NewTime(beginning.Add(time.Duration(i) * time.Millisecond))
	if i%2 == 0 {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprint("example.com/none-", i))] = resource.MustParse("1")
	}
	operator, values := corev1.NodeSelectorOpNotIn, make([]string, 500)
	if i%3 == 0 {
		operator = corev1.NodeSelectorOpIn
	}
	for j := range values {
		values[j] = fmt.Sprintf("value-%d-%d", i, j)
	}
	values[0] = fmt.Sprint("node-", i%20) // a name that there is
	required := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: operator, Values: values}}}
	other := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: fmt.Sprint("key-", i), Operator: corev1.NodeSelectorOpExists}}}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{required, other}},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: fmt.Sprint("preferred-", i), Operator: corev1.NodeSelectorOpIn, Values: values[:20]}},
		}}},
	}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: fmt.Sprint("taint-", i), Operator: corev1.TolerationOpExists}}
	p.Labels[v1.LabelTask], p.Labels[v1.LabelQueue] = fmt.Sprint("task-", i), fmt.Sprint("queue-", i)
	p.Annotations = map[string]string{
		v1.AnnotationTopologyLevel: fmt.Sprint("level-", i), v1.AnnotationMaxRuntime: fmt.Sprint(i + 1),
		v1.AnnotationNetworkTarget: fmt.Sprintf("target-%d:80", i),
	}
	if i%5 == 0 {
		in(fmt.Sprint("gang-", i), 1, 0)(p)
	}
	if i%7 != 0 {
		delete(p.Annotations, v1.AnnotationTopologyLevel) // else it is invalid
	}
	return p
}

// usedMiB returns how much memory is in use.
func usedMiB() float64 {
	goruntime.GC()
	goruntime.GC()
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / (1 << 20)
}

// newHostileFixture returns a planner with the framework's filters, and 20 nodes that hostnames tell apart.
func newHostileFixture(t *testing.T) *framed {
	t.Helper()
	plain := newFixture(t)
	nodes := make([]*corev1.Node, 20)
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		plain.addNode(name, "l", 8)
		nodes[i] = plain.infos[name].Node()
		nodes[i].Labels[corev1.LabelHostname] = name
	}
	f := newFramed(t, nodes, nil)
	f.withQueues(queue("all", 0, nil))
	return f
}

// memoryUse is how much a planner keeps for what Pods have mentioned.
type memoryUse struct {
	mirror.Size
	asked                     filters.Size
	states, groups, explained int
}

func (f *fixture) memoryUse() (k memoryUse) {
	k.Size = f.mirror.Size()
	f.mirror.With(func(cluster *placement.Cluster) { cluster.Root().States(func(*placement.State, int) { k.states++ }) })
	counts := f.registry.Count()
	k.groups = counts.Gathering + counts.Waiting + counts.Planned + counts.Running
	k.asked, k.explained = f.filters.Size(), len(f.explanations.entries)
	return k
}

// idle has minutes pass in which an ordinary Pod is tried from time to time.
func (f *framed) idle() {
	f.t.Helper()
	for i := range 4 {
		f.clock.Step(tidyPeriod)
		f.maintain(f.t.Context())
		p := pod(fmt.Sprint("ordinary-", f.clock.Now(), i), 1)
		f.comes(p)
		if f.decide(p).Node == "" {
			f.t.Fatal("an ordinary Pod finds no place")
		}
		f.goes(p)
	}
}

// Tenants create and delete as many objects as they like: what these mention must not stay.
func TestNothingStaysOfWhatHostilePodsHaveMentioned(t *testing.T) { //nolint:paralleltest // it measures the memory
	f := newHostileFixture(t)
	f.idle()
	before, memory := f.memoryUse(), usedMiB()
	most := 0
	for i := range hostileObjects {
		p := hostile(i)
		f.comes(p)
		f.decide(p)
		if i%100 == 0 {
			f.clock.Step(time.Second)
			f.maintain(t.Context())
			most = max(most, f.memoryUse().Bytes)
			f.handle.takeActivated()
		}
		f.goes(p)
	}
	during := usedMiB()
	last := f.memoryUse()
	if last.Shapes < before.Shapes+100 || last.Mentions < before.Mentions+1000 {
		t.Errorf("the Pods have left no traces at all: %+v", last)
	}
	if most > 3*mostGrowth {
		t.Errorf("up to %d MiB of what Pods have asked for were kept", most>>20)
	}
	f.idle()
	// Of what was learned as demand, a bounded part stays.
	if after := f.memoryUse(); after.states != before.states || after.Mentions > before.Mentions+maxLearned || after.Shapes > before.Shapes+maxLearned || after.Bytes > before.Bytes+maxLearnedBytes {
		t.Errorf("kept is %+v, was %+v", after, before)
	} else if after.Size = before.Size; after != before {
		t.Errorf("kept is %+v, was %+v", after, before)
	}
	after := usedMiB()
	t.Logf("kept: %+v before, %+v with what came last, %+v after", before, last, f.memoryUse())
	t.Logf("memory: %.1f MiB before, %.1f MiB with what came last, %.1f MiB after", memory, during, after)
	if after > memory+maxKeptMiB {
		t.Errorf("%.1f MiB are in use, %.1f MiB were before", after, memory)
	}
}

const (
	// maxLearned is how many requests are remembered as demand at most, and what they mention.
	maxLearned, maxLearnedBytes = 1 << 14, 2 << 20
	// maxKeptMiB is what a bounded memory of the past may take: of demand, of submissions.
	maxKeptMiB = 16
)
