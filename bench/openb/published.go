// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// publishedTraces are the published traces, the first one is shown in more detail. The
// report has others as well, after these.
var publishedTraces = []string{
	"default", "cpu050", "cpu100", "gpushare40", "gpushare100", "gpuspec10", "gpuspec20", "multigpu20", "multigpu30", "multigpu50",
}

// published are the results of the trace's authors at 100 % demand, the mean of
// the seeds 42 to 51, in percent of the GPUs
// (hkust-adsl/kubernetes-scheduler-simulator, experiments/analysis).
var published = map[string]map[string]float64{
	"default":     {random: 86.30, dotProd: 90.62, bestFit: 92.86, fgd: 95.23},
	"cpu050":      {random: 89.02, dotProd: 93.03, bestFit: 93.56, fgd: 95.00},
	"cpu100":      {random: 87.44, dotProd: 91.73, bestFit: 93.26, fgd: 95.21},
	"gpushare40":  {random: 84.86, dotProd: 89.30, bestFit: 91.44, fgd: 93.96},
	"gpushare100": {random: 78.90, dotProd: 81.98, bestFit: 84.62, fgd: 86.64},
	"gpuspec10":   {random: 86.26, dotProd: 90.17, bestFit: 93.10, fgd: 94.66},
	"gpuspec20":   {random: 85.90, dotProd: 88.29, bestFit: 88.46, fgd: 94.66},
	"multigpu20":  {random: 86.92, dotProd: 91.85, bestFit: 93.73, fgd: 95.53},
	"multigpu30":  {random: 86.63, dotProd: 93.11, bestFit: 94.57, fgd: 96.36},
	"multigpu50":  {random: 81.28, dotProd: 94.73, bestFit: 95.62, fgd: 97.09},
}
