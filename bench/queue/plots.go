// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"falldio.github.io/gpu-controller/bench/document"
)

// plotFile is the plot's name in the document's folder.
const plotFile = "queue.svg"

// shown are the policies that are drawn.
var shown = []struct {
	policy string
	color  color.Color
}{
	{"strict", color.Gray{Y: 190}}, {"skip", document.Gray}, {"easy", document.Orange}, {ours, document.Blue}, {"oracle", document.Green},
}

// plot draws which part of the jobs has started after some time of waiting.
func (r *report) plot(path string) error {
	nodes := r.sizes[0]
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Jobs that have started after some time of waiting, %d nodes", nodes)
	p.X.Label.Text = "hours"
	p.Y.Label.Text = "%"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, hourTicks()
	p.Y.Tick.Marker = document.Every(10)
	p.Legend.XOffs, p.Legend.YOffs = -vg.Points(10), vg.Points(10)
	p.Add(plotter.NewGrid())
	for _, one := range shown {
		result := r.of(one.policy, mixed, nodes)
		if result == nil {
			continue
		}
		line, err := plotter.NewLine(started(result.all.all))
		if err != nil {
			return err
		}
		line.Width, line.Color = vg.Points(1.5), one.color
		p.Add(line)
		p.Legend.Add(result.entrant.title, line)
	}
	return p.Save(7*vg.Inch, 4*vg.Inch, path)
}

// started returns the part that waited for no longer than some times.
func started(waits []float64) plotter.XYs {
	var points plotter.XYs
	at := 0
	for hours := 0.1; hours < 500; hours *= math.Pow(2, .25) {
		for at < len(waits) && waits[at] <= hours {
			at++
		}
		points = append(points, plotter.XY{X: hours, Y: 100 * float64(at) / float64(len(waits))})
	}
	return points
}

func hourTicks() plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, hours := range []float64{.1, .2, .5, 1, 2, 5, 10, 24, 48, 100, 200, 400} {
		ticks = append(ticks, plot.Tick{Value: hours, Label: fmt.Sprint(hours)})
	}
	return ticks
}
