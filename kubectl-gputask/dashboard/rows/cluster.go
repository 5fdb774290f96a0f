// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/migprofile"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// unmetered stands for a GPU whose utilisation is not known.
const unmetered = -1

// addNodes adds the nodes that have GPUs, and how busy these are.
func (b *builder) addNodes() {
	holders, reserved := b.view.Holders(), b.view.ReservedFor()
	uses := map[string]*analysis.NodeUse{}
	for i := range b.top.Leaves {
		for j := range b.top.Leaves[i].Nodes {
			uses[b.top.Leaves[i].Nodes[j].Name] = &b.top.Leaves[i].Nodes[j]
		}
	}
	for _, node := range b.view.Nodes {
		use := uses[node.Name]
		if use == nil {
			continue // it has no GPUs
		}
		b.set.put(Nodes, node.Name, b.node(node, use, holders[node.Name], reserved[node.Name]))
		if load := loadOf(use); load != nil {
			b.set.put(Load, node.Name, load)
		}
	}
}

func (b *builder) node(node *corev1.Node, use *analysis.NodeUse, holders []analysis.Holder, reserved map[int]string) *Node {
	row := &Node{Name: node.Name, Model: use.Model, Pool: use.Pool, Notice: use.Notice, Domains: domainsOf(node, b.view.Levels), GPUs: make([]Cell, len(use.GPUs))}
	var listed map[int]*inventory.GPU
	for i := range use.GPUs {
		card := &use.GPUs[i]
		row.GPUs[i] = Cell{Use: card.Use, Percent: percentOf(card), Slices: slicesOf(card)}
		switch card.Use {
		case analysis.CardUnhealthy:
			if listed == nil {
				listed = b.view.GPUsOf(node)
			}
			row.GPUs[i].Why = FaultText(listed[i])
		case analysis.CardReserved:
			row.GPUs[i].Why = "reserved for Pod " + reserved[i]
		default:
		}
	}
	for i := range holders {
		holder := &holders[i]
		row.Holders = append(row.Holders, holderRow(holder))
		for _, gpu := range holder.GPUs {
			if gpu < len(row.GPUs) {
				row.GPUs[gpu].Holders = append(row.GPUs[gpu].Holders, i)
			}
		}
		for _, held := range holder.Slices {
			cell := &row.GPUs[held.GPU]
			cell.Slices[held.Slice].Holder = i + 1
			if !slices.Contains(cell.Holders, i) {
				cell.Holders = append(cell.Holders, i)
			}
		}
	}
	return row
}

// slicesOf returns the MIG slices of a GPU; nil if it is not divided.
func slicesOf(card *analysis.Card) []Slice {
	var list []Slice
	for i := range card.Slices {
		list = append(list, Slice{Slice: card.Slices[i], Compute: migprofile.Compute(card.Slices[i].Profile)})
	}
	return list
}

func holderRow(holder *analysis.Holder) Holder {
	row := Holder{
		Namespace: holder.Pod.Namespace, Pod: holder.Pod.Name, Priority: holder.Priority, Percent: holder.Percent, Phase: string(holder.Pod.Status.Phase), Since: holder.Since,
	}
	if holder.Task != nil {
		row.Task = holder.Task.Name
	}
	return row
}

// percentOf returns how much of a shared GPU is allocated; 0 for others.
func percentOf(card *analysis.Card) int {
	if card.Use == analysis.CardShared || card.Use == analysis.CardDivided {
		return card.Percent
	}
	return 0
}

// FaultText returns why a GPU is unhealthy.
func FaultText(gpu *inventory.GPU) string {
	if gpu == nil || gpu.Fault == nil {
		return "unhealthy"
	}
	text := gpu.Fault.Reason + " since " + gpu.Fault.Since.UTC().Format("2006-01-02 15:04:05") + " UTC"
	if gpu.Fault.NeedsReset {
		text += "; it needs a reset"
	}
	return text
}

// domainsOf returns the node's domain on each level.
func domainsOf(node *corev1.Node, levels snapshot.Levels) []string {
	domains := make([]string, len(levels))
	for i, level := range levels {
		domains[i] = node.Labels[level.NodeLabel]
	}
	return domains
}

// loadOf returns the utilisation of a node's GPUs in percent; nil if that of none is known.
func loadOf(use *analysis.NodeUse) []int {
	if use.Utilization == nil {
		return nil
	}
	load := make([]int, len(use.GPUs))
	for i := range use.GPUs {
		load[i] = unmetered
		if known := use.GPUs[i].Utilization; known != nil {
			load[i] = int(math.Round(100 * *known))
		}
	}
	return load
}

// addSummary adds the totals.
func (b *builder) addSummary() {
	summary := b.given
	for _, level := range b.view.Levels {
		summary.Levels = append(summary.Levels, level.Name)
	}
	summary.Total, summary.Models = b.top.Total(), append([]analysis.Model{}, b.top.Models...)
	summary.Total.Utilization = nil // it changes all the time: the load of each node has its own row
	for i := range summary.Models {
		summary.Models[i].Utilization = nil
	}
	for _, problem := range b.view.Problems {
		summary.Problems = append(summary.Problems, strings.ToValidUTF8(problem.Error(), "?"))
	}
	summary.StrandedGPUs, summary.StrandedFor = b.stranded()
	summary.Metered = b.top.Metered
	summary.WaitingGPUs, summary.WaitingTasks, summary.RunningTasks = b.waiting.String(), len(b.line.Waiting), len(b.line.Running)
	b.set.put(Summaries, "", &summary)
}

// stranded returns how many free GPUs, in GPUs, Pods of a task can't use because what is free together is too small: of
// what tasks ask for most, for that for which it is most. What would fit on no node is left out.
func (b *builder) stranded() (gpus float64, shape string) {
	most := 0
	for i := range b.top.Shapes {
		if one := &b.top.Shapes[i]; one.Tasks > 0 && !one.Oversized && one.Stranded > most {
			most, shape = one.Stranded, one.Shape
		}
	}
	return float64(most) / 100, shape
}

// sample returns the moment as a part of the history.
func (b *builder) sample() Sample {
	sample := Sample{Time: nowOf(b.view), Waiting: float64(b.waiting) / float64(queueing.GPU)}
	sample.Stranded, _ = b.stranded()
	for i := range b.top.Leaves {
		for j := range b.top.Leaves[i].Nodes {
			for _, card := range b.top.Leaves[i].Nodes[j].GPUs {
				sample.Total++
				if card.Use == analysis.CardUnhealthy {
					sample.Unhealthy++
				}
				sample.Allocated += float64(min(card.Percent, 100)) / 100
			}
		}
	}
	return sample
}
