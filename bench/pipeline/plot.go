// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"falldio.github.io/gpu-controller/bench/document"
)

// plotRates draws how many Pods per second each system starts, by kind.
func plotRates(path string, r results, kinds []kind) error {
	p := plot.New()
	p.Title.Text = "From GPUTasks to running Pods"
	p.Y.Label.Text = "Pods per second"
	p.Legend.Top, p.Legend.Left = true, true
	const width = 26
	bars := []struct {
		system string
		color  color.Color
	}{{floor, document.Gray}, {bare, document.Orange}, {ours, document.Blue}}
	for i, bar := range bars {
		var rates []float64
		for _, k := range kinds {
			rate, _ := r.median(bar.system, k, podRate)
			rates = append(rates, rate)
		}
		if err := document.AddBars(p, titleOf(bar.system), rates, vg.Points(width), vg.Points(width)*vg.Length(i-1), bar.color); err != nil {
			return err
		}
	}
	var names []string
	for _, k := range kinds {
		names = append(names, k.String())
	}
	p.NominalX(names...)
	p.Y.Min, p.Y.Max = 0, p.Y.Max*1.35 // room for the legend
	p.X.Min, p.X.Max = p.X.Min-0.5, p.X.Max+0.5
	return p.Save(7*vg.Inch, 4*vg.Inch, path)
}
