// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// defaultWidth is the width of a heatmap if that of the page is unknown.
const defaultWidth = 100

// The groups of nodes in the heatmap.
const (
	ByLeaf  = "leaf"
	ByModel = "model"
	ByPool  = "pool"
)

// TopOptions is what is shown of how GPUs are used.
type TopOptions struct {
	// By is what the nodes are grouped by.
	By string
	// Room is true for a table of what there is room for, instead of a sentence.
	Room bool
}

// Top writes how the cluster's GPUs are used: a heatmap with one character for each GPU,
// totals, and what there is room for.
func Top(p *Page, top *analysis.Top, options TopOptions) {
	if len(top.Models) == 0 {
		p.Printf("No node has GPUs: nodeagent lists them, see docs/node-agent.md.\n")
		problems(p, top.Problems)
		return
	}
	groups := groupsOf(top, options.By)
	for i := range groups {
		leaf(p, &groups[i], top)
	}
	legend(p, top)
	models(p, top)
	profiles(p, top.Profiles)
	if options.Room {
		rooms(p, top)
	} else {
		roomInBrief(p, top)
	}
	problems(p, top.Problems)
}

// groupsOf returns the nodes in groups.
func groupsOf(top *analysis.Top, by string) []analysis.Leaf {
	switch by {
	case ByModel:
		return top.GroupedBy(func(node *analysis.NodeUse) string { return cmp.Or(node.Model, "(unknown model)") })
	case ByPool:
		return top.GroupedBy(func(node *analysis.NodeUse) string { return cmp.Or(node.Pool, "(no pool)") })
	default:
		return top.Leaves
	}
}

func leaf(p *Page, l *analysis.Leaf, top *analysis.Top) {
	p.Printf("%s  %s\n", p.Paint(Bold, l.Name), p.Paint(Faint, sumText(&l.Sum)))
	names, gpus, suffixes := 0, widestNode(top), 0
	for i := range l.Nodes {
		node := &l.Nodes[i]
		names = max(names, utf8.RuneCountInString(node.Name))
		gpus = max(gpus, len(node.GPUs))
		suffixes = max(suffixes, utf8.RuneCountInString(suffixOf(node)))
	}
	each := 2 + names + 1 + gpus + 1 + suffixes
	columns := max(1, cmp.Or(p.Width, defaultWidth)/each)
	line := ""
	for i := range l.Nodes {
		node := &l.Nodes[i]
		line += "  " + node.Name + spaces(names-utf8.RuneCountInString(node.Name)) + " "
		line += heatmap(p, node) + spaces(gpus-len(node.GPUs))
		if suffix := suffixOf(node); suffixes > 0 {
			line += " " + p.Paint(Faint, suffix) + spaces(suffixes-utf8.RuneCountInString(suffix))
		}
		if (i+1)%columns == 0 || i == len(l.Nodes)-1 {
			p.Printf("%s\n", strings.TrimRight(line, " "))
			line = ""
		}
	}
}

// widestNode returns the column width that aligns leaves with each other, at most 8 GPUs.
func widestNode(top *analysis.Top) int {
	const most = 8
	widest := 0
	for i := range top.Leaves {
		for j := range top.Leaves[i].Nodes {
			widest = max(widest, len(top.Leaves[i].Nodes[j].GPUs))
		}
	}
	return min(widest, most)
}

func spaces(count int) string { return strings.Repeat(" ", max(0, count)) }

func suffixOf(node *analysis.NodeUse) string {
	var parts []string
	if node.Utilization != nil {
		parts = append(parts, percent(*node.Utilization))
	}
	if node.Notice != "" {
		parts = append(parts, node.Notice)
	}
	return strings.Join(parts, " ")
}

func percent(ratio float64) string { return fmt.Sprintf("%d%%", int(math.Round(100*ratio))) }

// heatmap returns one character for each GPU. Neighbours of the same style share its
// escape sequences.
func heatmap(p *Page, node *analysis.NodeUse) string {
	var text, run strings.Builder
	before := Plain
	for i := range node.GPUs {
		sign, style := signOf(&node.GPUs[i])
		if style != before {
			text.WriteString(p.Paint(before, run.String()))
			run.Reset()
			before = style
		}
		run.WriteString(sign)
	}
	text.WriteString(p.Paint(before, run.String()))
	return text.String()
}

func signOf(card *analysis.Card) (string, Style) {
	switch card.Use {
	case analysis.CardUnhealthy:
		return "x", Red
	case analysis.CardBusy:
		return "#", Blue
	case analysis.CardShared:
		return fmt.Sprint(min(9, max(1, card.Percent/10))), Purple
	case analysis.CardReserved:
		return "r", Yellow
	case analysis.CardClosed:
		return "-", Faint
	case analysis.CardDivided:
		return dividedSign(card)
	default:
		return ".", Green
	}
}

// dividedSign returns the sign of a GPU that is divided into MIG slices: o while all are free, m
// while some are held, M while all are.
func dividedSign(card *analysis.Card) (string, Style) {
	if len(card.Slices) == 0 {
		return "-", Faint // in MIG mode, and of no use
	}
	busy := 0
	for i := range card.Slices {
		if card.Slices[i].Use == analysis.CardBusy {
			busy++
		}
	}
	switch busy {
	case 0:
		return "o", Green
	case len(card.Slices):
		return "M", Blue
	default:
		return "m", Purple
	}
}

func legend(p *Page, top *analysis.Top) {
	p.Printf("\n%s free  %s busy  %s shared (tenths)  %s reserved  %s free, but takes no Pods  %s unhealthy",
		p.Paint(Green, "."), p.Paint(Blue, "#"), p.Paint(Purple, "1-9"), p.Paint(Yellow, "r"), p.Paint(Faint, "-"), p.Paint(Red, "x"))
	if len(top.Profiles) > 0 {
		p.Printf("  %s %s %s MIG slices all free, some held, all held", p.Paint(Green, "o"), p.Paint(Purple, "m"), p.Paint(Blue, "M"))
	}
	if top.Metered {
		p.Printf("  %s", p.Paint(Faint, "% utilisation"))
	}
	p.Printf("\n")
}

func sumText(s *analysis.Sum) string {
	nodes, whole := plural.Count(s.Nodes, "node"), s.GPUs-s.Divided
	slices := fmt.Sprintf("%d of %s free", s.FreeSlices, plural.Count(s.Slices, "MIG slice"))
	switch {
	case s.Divided == 0:
		return fmt.Sprintf("%s, %d of %s free", nodes, s.Free, plural.Count(whole, "GPU"))
	case whole == 0:
		return nodes + ", " + slices
	default:
		return fmt.Sprintf("%s, %d of %s free, %s", nodes, s.Free, plural.Count(whole, "whole GPU"), slices)
	}
}

func models(p *Page, top *analysis.Top) {
	t := newTable(slices.Concat([]string{"MODEL", "POOL", "NODES"}, useHeading(top))...)
	for i := range top.Models {
		m := &top.Models[i]
		t.add(slices.Concat([]any{cmp.Or(m.Model, "<unknown>"), orNone(m.Pool), m.Nodes}, useCells(&m.Sum, top))...)
	}
	t.section(p, "GPUs")
}

// Nodes writes how the GPUs of each node are used, as a table.
func Nodes(p *Page, top *analysis.Top) {
	t := newTable(slices.Concat([]string{"NODE", "MODEL", "POOL", "LEAF"}, useHeading(top), []string{"NOTICE"})...)
	for i := range top.Leaves {
		leaf := top.Leaves[i].Name
		if leaf == analysis.NoLeaf {
			leaf = orNone("")
		}
		for j := range top.Leaves[i].Nodes {
			node := &top.Leaves[i].Nodes[j]
			sum := node.Sum()
			t.add(slices.Concat([]any{node.Name, cmp.Or(node.Model, "<unknown>"), orNone(node.Pool), leaf}, useCells(&sum, top), []any{node.Notice})...)
		}
	}
	t.write(p)
	problems(p, top.Problems)
}

// useHeading returns the titles of the columns that say how GPUs are used.
func useHeading(top *analysis.Top) []string {
	heading := []string{"GPUS", "FREE", "SHARED", "BUSY", "RESERVED", "CLOSED", "UNHEALTHY"}
	if len(top.Profiles) > 0 {
		heading = append(heading, "DIVIDED")
	}
	if top.Metered {
		heading = append(heading, "UTILISATION")
	}
	return heading
}

func useCells(s *analysis.Sum, top *analysis.Top) []any {
	row := []any{s.GPUs, coloured(s.Free, Green), s.Shared, s.Busy, coloured(s.Reserved, Yellow), s.Closed, coloured(s.Unhealthy, Red)}
	if len(top.Profiles) > 0 {
		row = append(row, s.Divided)
	}
	switch {
	case !top.Metered:
		return row
	case s.Utilization == nil:
		return append(row, "<unknown>")
	default:
		return append(row, percent(*s.Utilization))
	}
}

// profiles writes how many MIG slices there are.
func profiles(p *Page, list []analysis.Profile) {
	t := newTable("PROFILE", "MODEL", "POOL", "NODES", "SLICES", "FREE", "BUSY", "CLOSED", "UNHEALTHY")
	for i := range list {
		profile := &list[i]
		t.add(profile.Profile, cmp.Or(profile.Model, "<unknown>"), orNone(profile.Pool), profile.Nodes, profile.Slices,
			coloured(profile.Free, Green), profile.Busy, profile.Closed, coloured(profile.Unhealthy, Red))
	}
	t.sectionIfAny(p, "MIG slices")
}

func coloured(count int, style Style) Cell {
	if count == 0 {
		style = Plain
	}
	return Cell{Text: fmt.Sprint(count), Style: style}
}

// roomInBrief writes for how many Pods of common sizes there is room.
func roomInBrief(p *Page, top *analysis.Top) {
	var texts []string
	for _, shape := range top.CommonShapes() {
		if shape.Pods > 0 {
			texts = append(texts, plural.Count(shape.Pods, "Pod")+" with "+shape.Shape)
		}
	}
	if len(texts) == 0 {
		texts = []string{"no Pod that asks for a whole GPU"}
	}
	p.Printf("\nThere is room for %s. For more: --room\n", strings.Join(texts, ", or "))
}

// rooms writes what there is room for. For the engine, the nodes without a level's label
// are one domain.
func rooms(p *Page, top *analysis.Top) {
	heading := []string{"EACH POD", "TASKS", "PODS THAT FIT", "STRANDED GPUS"}
	for _, level := range top.Levels[1:] { // for the cluster it equals the Pods that fit
		heading = append(heading, "LARGEST GANG IN A "+strings.ToUpper(level))
	}
	t := newTable(heading...)
	for i := range top.Shapes {
		shape := &top.Shapes[i]
		row := []any{shape.Shape, orDash(shape.Tasks), shape.Pods, gpus(shape.Stranded)}
		for level := range top.Levels[1:] {
			row = append(row, gangText(&shape.Largest[level+1]))
		}
		t.add(row...)
	}
	t.section(p, "Room")
}

func gangText(largest *analysis.Largest) string {
	if largest.Pods == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", largest.Pods, largest.Domain)
}
