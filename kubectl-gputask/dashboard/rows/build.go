// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// Input is what the rows are made of.
type Input struct {
	View *analysis.View
	// Queues are the GPUQueues as the view uses them; nil for none.
	Queues *analysis.Queues
	// Waiting are the Pods without a node, whatever their owner.
	Waiting []*corev1.Pod
	// Load is how busy the GPUs are, as far as it is known.
	Load analysis.Utilization
	// Known has what of the Summary is known otherwise.
	Known Summary
	// Partial is true if these are not all Pods of the cluster: then it is not known who is first.
	Partial bool
	// Help returns what would help a waiting task; nothing if that is not known.
	Help func(*analysis.LineEntry) Advice
}

// Advice is what would help a waiting task, in a sentence and as changes each of which alone lets it start.
type Advice struct {
	Text     string
	Remedies []v1.WaitingRemedy
}

// Build returns the rows of all collections but Samples, and what the history keeps of now.
func Build(in *Input) (Set, *Moment) {
	b := &builder{view: in.View, given: in.Known, queues: in.Queues, help: in.Help, set: Set{}}
	b.top = in.View.Top(in.Load)
	b.line = analysis.NewLine(&analysis.LineObjects{
		Queues: in.Queues, Tasks: in.View.Tasks, Pods: slices.Concat(slices.Collect(in.View.Placed()), in.Waiting), Complete: !in.Partial, Now: in.View.Now,
	})
	for i := range b.line.Waiting {
		b.waiting += b.line.Waiting[i].Asked()
	}
	for _, name := range []string{Summaries, Nodes, Load, Tasks, Waiting, Queues, Plans} {
		b.set[name] = map[string]any{} // one that is empty now was not before
	}
	b.addNodes()
	b.addTasks()
	b.addWaiting()
	b.addQueues()
	b.addPlans()
	b.addSummary()
	return b.set, b.moment()
}

type builder struct {
	view    *analysis.View
	queues  *analysis.Queues
	help    func(*analysis.LineEntry) Advice
	given   Summary
	top     *analysis.Top
	line    *analysis.Line
	waiting queueing.Amount
	set     Set
}

func (s Set) put(collection, key string, row any) { s[collection][key] = row }

func nowOf(view *analysis.View) metav1.Time { return metav1.NewTime(view.Now.UTC()) }
