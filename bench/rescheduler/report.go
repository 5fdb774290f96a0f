// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"image/color"
	"path/filepath"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"falldio.github.io/gpu-controller/bench/document"
)

// plotFile is the plot's name in the document's folder.
const plotFile = "rescheduler.svg"

// reportPart is the report's part of the document.
var reportPart = document.Part{Tool: "bench/rescheduler", Name: "results"}

// write writes the report into a folder.
func (b *bench) write() error {
	if err := b.plot(filepath.Join(b.report, plotFile)); err != nil {
		return err
	}
	text := fmt.Sprintf("![Large tasks that have started](%s)\n\n%s", plotFile, b.text())
	return reportPart.ReplaceIn(filepath.Join(b.report, document.Name), text)
}

// text returns the results as Markdown.
func (b *bench) text() string {
	var t strings.Builder
	ours := &b.totals[len(b.totals)-1]
	fmt.Fprintf(&t, "%d seeds, %d running Pods and %.1f large tasks that do not fit at first for each.\n\n%s\n",
		b.seeds, b.running/b.seeds, float64(ours.waited)/float64(b.seeds), b.systems())
	fmt.Fprintf(&t, "Ours needed %v to plan (median; 99 %% of the plans: %v), from Nodes and Pods to a MovePlan.\n\n",
		ours.quantile(50).Round(time.Millisecond), ours.quantile(99).Round(time.Millisecond))
	fmt.Fprintf(&t, "Against the best there is:\n\n%s\n", b.optimum())
	return t.String()
}

// systems compares all systems.
func (b *bench) systems() *document.Table {
	table := &document.Table{Header: []string{
		"", "started in 1 h", "in 24 h", "mean time to start, min", "moves", "Pods moved", "GPUs per move", "work lost, GPU-h", "gangs broken", "Pods left without a place",
	}}
	for i := range b.totals {
		t := &b.totals[i]
		perMove := "–"
		if t.moved > 0 {
			perMove = document.Hundredths(float64(t.gpus) / float64(t.moved))
		}
		table.Add(t.title, fmt.Sprintf("%.0f %%", t.startedBy(3600)), fmt.Sprintf("%.0f %%", t.startedBy(horizon)), fmt.Sprintf("%.0f", t.meanStart()),
			fmt.Sprint(t.moved), fmt.Sprintf("%.2f %%", 100*float64(t.evicted)/float64(b.running)), perMove,
			fmt.Sprintf("%.1f", t.lost), fmt.Sprint(t.broken), fmt.Sprint(t.unplaced))
	}
	return table
}

// optimum compares ours with the optimum, or a bound of it.
func (b *bench) optimum() *document.Table {
	table := &document.Table{Header: []string{"", "cases", "no moves found", "as good as the best", "best ÷ ours"}}
	for _, one := range []struct {
		title string
		*comparison
	}{{"small cases, number of moves", &b.byMoves}, {"small cases, cost", &b.byCost}} {
		table.Add(one.title, fmt.Sprint(one.cases), fmt.Sprint(one.missed), fmt.Sprint(one.equal), fmt.Sprintf("%.1f %%", one.percent()))
	}
	table.Add("whole cluster, number of moves (best: a bound)", fmt.Sprint(b.seeds), "–", "–", fmt.Sprintf("%.1f %%", 100*b.least/b.moves))
	return table
}

// plot draws how many large tasks have started over time.
func (b *bench) plot(path string) error {
	p := plot.New()
	p.Title.Text = "Large tasks that have started, of those that did not fit at first"
	p.X.Label.Text = "minutes"
	p.Y.Label.Text = "%"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, minutes()
	p.Y.Tick.Marker = document.Every(20)
	p.Y.Min, p.Y.Max = 0, 105
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	colors := []color.Color{document.Gray, document.Orange, color.Gray{Y: 190}, document.Green, document.Blue}
	for i := range b.totals {
		line, err := plotter.NewLine(b.totals[i].steps())
		if err != nil {
			return err
		}
		line.Width, line.Color = vg.Points(1.5), colors[i]
		p.Add(line)
		p.Legend.Add(b.totals[i].title, line)
	}
	return p.Save(7*vg.Inch, 4*vg.Inch, path)
}

// steps returns the corners of the line of started tasks.
func (t *total) steps() plotter.XYs {
	points := plotter.XYs{{X: 1, Y: t.startedBy(60)}}
	for minute := 2; minute <= horizon/60; minute++ {
		before, now := t.startedBy(float64(minute-1)*60), t.startedBy(float64(minute)*60)
		if before != now || minute == horizon/60 {
			points = append(points, plotter.XY{X: float64(minute), Y: before}, plotter.XY{X: float64(minute), Y: now})
		}
	}
	return points
}

func minutes() plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, minute := range []float64{1, 2, 5, 10, 20, 60, 120, 300, 600, 1200} {
		ticks = append(ticks, plot.Tick{Value: minute, Label: fmt.Sprint(minute)})
	}
	return ticks
}
