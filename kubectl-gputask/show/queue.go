// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// Queue writes all about a queue.
func Queue(p *Page, r *analysis.QueueReport) {
	queue := r.Queue
	var f pairs
	f.add("Name", queue.Name)
	var ancestors []string
	for i := range r.Ancestors {
		ancestors = append(ancestors, r.Ancestors[i].Name)
	}
	f.add("Parent", cmp.Or(strings.Join(ancestors, ", child of "), "the cluster"))
	f.addIf("Children", abbreviate(r.Children, 8))
	f.add("Used by", namespacesText(queue))
	f.add("Priorities", prioritiesText(r.Priorities))
	f.add("Runtime", runtimeText(r))
	f.add("Borrowing", reclaimText(&r.Reclaim))
	f.add("Share", shareText(r))
	f.add("Fair share", factorText(queue.Status.Usage))
	f.addIf("GPU time", gpuTimeText(p, queue.Status.Usage))
	f.add("Tasks", fmt.Sprintf("%d %s GPUs, %d %s", queue.Status.Running, plural.Verb(queue.Status.Running, "holds", "hold"), queue.Status.Waiting, plural.Verb(queue.Status.Waiting, "waits", "wait")))
	f.addIf("Problem", p.Paint(Red, oneLine(r.Problem)))
	f.write(p)
	queueResources(p, r)
	queueWork(p, r)
	rivals(p, r)
	describeConditions(p, queue.Status.Conditions)
}

func namespacesText(queue *v1.GPUQueue) string {
	selector := queue.Spec.NamespaceSelector
	switch {
	case selector == nil:
		return "no namespace: it has no namespaceSelector"
	case len(selector.MatchLabels)+len(selector.MatchExpressions) == 0:
		return "all namespaces"
	default:
		return "namespaces with " + metav1.FormatLabelSelector(selector)
	}
}

func prioritiesText(priorities []string) string {
	if len(priorities) == 0 {
		return "all"
	}
	shown := make([]string, len(priorities))
	for i, name := range priorities {
		shown[i] = orNone(name)
	}
	return strings.Join(shown, ", ")
}

func runtimeText(r *analysis.QueueReport) string {
	text := "unlimited"
	if r.MaxRuntimeSeconds > 0 {
		text = "at most " + secondsText(r.MaxRuntimeSeconds)
	}
	if r.DefaultRuntimeSeconds > 0 {
		return text + "; " + secondsText(r.DefaultRuntimeSeconds) + " is assumed for tasks without a declared maximum"
	}
	return text + "; predicted from earlier tasks for those without a declared maximum"
}

// reclaimText says what happens to GPUs that the queue has borrowed.
func reclaimText(reclaim *v1.GPUQueueReclaim) string {
	var text string
	switch reclaim.Policy {
	case v1.ReclaimNever:
		return "borrowed GPUs are not reclaimed: tasks on them run to their end"
	case v1.ReclaimLowerPriority:
		text = "borrowed GPUs are reclaimed by queues below their guarantee, for tasks of higher priority"
	default:
		text = "borrowed GPUs are reclaimed by queues below their guarantee"
	}
	if least := ptr.Deref(reclaim.MinRuntimeSeconds, 0); least > 0 {
		text += ", after " + secondsText(int64(least)) + " at the earliest"
	}
	if notice := ptr.Deref(reclaim.NoticeSeconds, 0); notice > 0 {
		text += ", with a notice of " + secondsText(int64(notice))
	}
	return text
}

func shareText(r *analysis.QueueReport) string {
	of := "the cluster"
	if len(r.Ancestors) > 0 {
		of = "the share of " + r.Ancestors[0].Name
	}
	return fmt.Sprintf("%.0f%% of %s, with weight %d among sibling queues with work", math.Round(100*r.Share), of, ptr.Deref(r.Queue.Spec.Weight, 1))
}

// factorText says what the fair-share factor means.
func factorText(usage *v1.GPUQueueTime) string {
	if usage == nil || usage.Factor == "" {
		return "no GPU time used yet: all queues are equal"
	}
	return usage.Factor + ": it has used " + usage.Factor + " times its fair share; the lower the number, the sooner its tasks start"
}

func gpuTimeText(p *Page, usage *v1.GPUQueueTime) string {
	if usage == nil {
		return ""
	}
	text := fmt.Sprintf("%s GPU-hours in all; %.1f count for fair share, with a half-life of %s", usage.GPUHours, float64(usage.GPUSeconds)/3600, secondsText(usage.HalfLifeSeconds))
	if !usage.AsOf.IsZero() {
		text += " (counted " + p.Age(usage.AsOf.Time) + " ago)"
	}
	return text
}

func queueResources(p *Page, r *analysis.QueueReport) {
	t := newTable("QUEUE", "MODEL", "GUARANTEED", "LIMIT", "USED", "BORROWED", "WAITING")
	add := func(queue string, resources []analysis.QueueResource) {
		for i := range resources {
			r := &resources[i]
			model := r.GPU
			if model == v1.AnyGPU {
				model = "all"
			}
			t.add(queue, model, r.Guaranteed, orNone(r.Limit), r.Used, r.Borrowed, r.Waiting)
		}
	}
	add(r.Queue.Name, r.Resources)
	for i := range r.Ancestors {
		add(r.Ancestors[i].Name, r.Ancestors[i].Resources)
	}
	t.section(p, "GPUs, including those of its children")
}

// shownEntries limits how many tasks of a queue are shown.
const shownEntries = 12

func queueWork(p *Page, r *analysis.QueueReport) {
	p.Title("Waiting")
	served := func(entry analysis.LineEntry) bool { return !entry.Refused }
	if index := slices.IndexFunc(r.Waiting, served); index >= 0 && r.Waiting[index].EstimatedStart != nil {
		first := &r.Waiting[index]
		p.Printf("  Next: %s/%s with %s GPUs, expected to start %s\n", first.Namespace, first.Name, first.GPUs, p.expectation(first.EstimatedStart))
	}
	if len(r.Waiting) == 0 && len(r.Children) > 0 {
		p.Printf("  <none> in the queue itself; for its children: kubectl gputask queue %s -A\n", strings.Join(r.Children, " "))
	} else {
		section(p, r.Waiting, waitingTable)
	}
	if len(r.Running) > 0 {
		p.Title("Running")
		section(p, r.Running, runningTable)
	}
}

// section writes the first entries of a queue as a table.
func section(p *Page, entries []analysis.LineEntry, draw func(*Page, []analysis.LineEntry, LineColumns) *table) {
	if len(entries) == 0 {
		p.Printf("  <none>\n")
		return
	}
	t := draw(p, entries[:min(len(entries), shownEntries)], LineColumns{})
	t.drop("QUEUE") // it is the queue in question
	t.indent = "  "
	t.write(p)
	if rest := len(entries) - shownEntries; rest > 0 {
		p.Printf("  and %d more: kubectl gputask queue %s -A\n", rest, entries[0].Queue)
	}
}

// shownRivals limits how many other queues are shown.
const shownRivals = 10

func rivals(p *Page, r *analysis.QueueReport) {
	if len(r.Rivals) == 0 {
		return
	}
	own := "1.00"
	if usage := r.Queue.Status.Usage; usage != nil {
		own = cmp.Or(usage.Factor, own)
	}
	t := newTable("QUEUE", "FACTOR", "WAITING", "WHY")
	t.add(Cell{Text: r.Queue.Name, Style: Bold}, own, r.Resources[0].Waiting, "this queue")
	styles := map[analysis.Turn]Style{analysis.Before: Yellow, analysis.After: Green}
	for i := range r.Rivals[:min(len(r.Rivals), shownRivals)] {
		rival := &r.Rivals[i]
		t.add(rival.Name, fmt.Sprintf("%.2f", rival.Factor), rival.Waiting, Cell{Text: rival.Why, Style: styles[rival.Turn]})
	}
	t.section(p, "Other queues with waiting work")
	if rest := len(r.Rivals) - shownRivals; rest > 0 {
		p.Printf("  and %s\n", plural.Count(rest, "more queue"))
	}
	p.Printf("  Apart from guarantees, the order also depends on the run times of tasks and on how long they have waited.\n")
}
