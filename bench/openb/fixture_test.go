// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// tinyNodes and tinyTrace are a trace made by hand; the real one is not in the repository.
var (
	tinyNodes = filepath.Join("testdata", dataset.NodesFile)
	tinyTrace = filepath.Join("testdata", "openb_pod_list_tiny.csv")
	untimed   = filepath.Join("testdata", "openb_pod_list_untimed.csv")
)

func tiny(t *testing.T) *workload {
	t.Helper()
	w, err := readWorkload(tinyNodes, tinyTrace)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// oneNode returns one node with some GPUs.
func oneNode(gpus int) []placement.Node {
	return []placement.Node{{
		Name: "node", CPU: 10_000, Memory: 1024, Slots: 10, Model: "T4", GPUs: make([]placement.GPU, gpus),
	}}
}

// share returns a Pod that requests a share of a GPU, in percent.
func share(name string, percent int) dataset.Pod {
	return dataset.Pod{Name: name, Milli: percent * dataset.MilliPerCard / placement.Card, Shape: placement.Shape{CPU: 1000, Share: percent}}
}

// whole returns a Pod that requests whole GPUs.
func whole(name string, gpus int) dataset.Pod {
	return dataset.Pod{Name: name, Milli: dataset.MilliPerCard, Shape: placement.Shape{CPU: 1000, GPUs: gpus}}
}
