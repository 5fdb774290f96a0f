// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Colors that color-blind people can distinguish as well (Okabe and Ito).
var (
	Blue   = color.RGBA{R: 0, G: 114, B: 178, A: 255}
	Orange = color.RGBA{R: 213, G: 94, B: 0, A: 255}
	Green  = color.RGBA{R: 0, G: 158, B: 115, A: 255}
	Gray   = color.RGBA{R: 120, G: 120, B: 120, A: 255}
)

// Every returns ticks at the multiples of a distance.
func Every(distance float64) plot.TickerFunc {
	return func(from, to float64) []plot.Tick {
		var ticks []plot.Tick
		for n := math.Ceil(from / distance); n*distance <= to; n++ {
			ticks = append(ticks, plot.Tick{Value: n * distance, Label: fmt.Sprint(n * distance)})
		}
		return ticks
	}
}

// AddBars adds bars of a width, offset from the ticks.
func AddBars(p *plot.Plot, name string, values []float64, width, offset vg.Length, fill color.Color) error {
	bars, err := plotter.NewBarChart(plotter.Values(values), width)
	if err != nil {
		return err
	}
	bars.Offset = offset
	bars.Color = fill
	bars.LineStyle.Width = 0
	p.Add(bars)
	p.Legend.Add(name, bars)
	return nil
}
