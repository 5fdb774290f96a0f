// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"falldio.github.io/gpu-controller/bench/document"
)

// colors tell the policies apart.
var colors = map[string]color.Color{ours: document.Blue, fgd: document.Orange, bestFit: document.Green, random: document.Gray}

// The range of demands to plot: the curves begin to differ at the first one, and no
// longer rise at the last one.
const (
	shownFrom = 75
	shownTo   = 129 // the label of 130 would not fit
)

// plots writes the plots and returns the Markdown that shows them.
func (r *report) plots() (string, error) {
	if err := r.plotDemand(); err != nil {
		return "", err
	}
	if err := r.plotGain(); err != nil {
		return "", err
	}
	return fmt.Sprintf("![Allocation against demand](%s)\n\n![Gain over FGD by trace](%s)\n", demandPlot, gainPlot), nil
}

// plotDemand draws allocation against demand on the first trace.
func (r *report) plotDemand() error {
	p := plot.New()
	p.Title.Text = "Allocated GPUs against demand, trace " + r.traces[0]
	p.X.Label.Text = "asked for, % of the GPUs"
	p.Y.Label.Text = "allocated, % of the GPUs"
	p.Legend.XOffs = -vg.Points(10)
	p.Legend.YOffs = vg.Points(10)
	p.X.Tick.Marker = document.Every(5)
	p.Y.Tick.Marker = document.Every(5)
	p.X.Padding = vg.Points(10)
	p.Add(plotter.NewGrid())
	for _, policy := range []string{ours, fgd, bestFit, random} {
		c, err := r.replay(r.traces[0], usual(policy), r.seeds)
		if err != nil {
			return err
		}
		var points plotter.XYs
		for percent := shownFrom; percent <= shownTo; percent++ {
			points = append(points, plotter.XY{X: float64(percent), Y: c.at(percent)})
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Width = vg.Points(1.5)
		line.Color = colors[policy]
		p.Add(line)
		p.Legend.Add(titles[policy], line)
	}
	return p.Save(7*vg.Inch, 4*vg.Inch, filepath.Join(r.dir, demandPlot))
}

// plotGain draws, for each trace, the gain of ours over FGD, and that of the bound.
func (r *report) plotGain() error {
	var gains, limits plotter.Values
	for _, trace := range r.traces {
		limit, err := r.limit(trace)
		if err != nil {
			return err
		}
		theirs, err := r.replay(trace, usual(fgd), r.seeds)
		if err != nil {
			return err
		}
		ourCurve, err := r.replay(trace, usual(ours), r.seeds)
		if err != nil {
			return err
		}
		gains = append(gains, ourCurve.at(100)-theirs.at(100))
		limits = append(limits, limit.accepting-theirs.at(100))
	}
	p := plot.New()
	p.Title.Text = "More allocated than with FGD, when all GPUs were asked for"
	p.Y.Label.Text = "percentage points"
	p.Legend.Top, p.Legend.Left = true, true
	width := vg.Points(14)
	if err := document.AddBars(p, "ours", gains, width, -width/2, colors[ours]); err != nil {
		return err
	}
	if err := document.AddBars(p, "bound (accepts all, first seed)", limits, width, width/2, color.Gray{Y: 190}); err != nil {
		return err
	}
	p.NominalX(r.traces...)
	p.Y.Min, p.Y.Max = 0, p.Y.Max+0.5 // room for the legend
	p.Y.Tick.Marker = document.Every(0.5)
	p.X.Min, p.X.Max = p.X.Min-0.2, p.X.Max+0.5 // and for the last name
	return p.Save(11*vg.Inch, 4*vg.Inch, filepath.Join(r.dir, gainPlot))
}
