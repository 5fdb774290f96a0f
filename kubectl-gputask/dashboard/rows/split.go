// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SplitHistory is how the GPUs of a cluster were used in one dimension, such as by queue.
type SplitHistory struct {
	Source string `json:"source"`
	// Trouble is why Prometheus does not answer, and Missing what it has no values of.
	Trouble string `json:"trouble,omitempty"`
	Missing string `json:"missing,omitempty"`
	Curves  Curves `json:"curves"`

	Rows []SplitRow `json:"rows"`
	// Uncounted is why there are no GPU-hours. CountedSince and CountedUntil bound what they are of.
	Uncounted    string       `json:"uncounted,omitempty"`
	CountedSince *metav1.Time `json:"countedSince,omitempty"`
	CountedUntil *metav1.Time `json:"countedUntil,omitempty"`
	// SeenSince is since when the page's server sees tasks start.
	SeenSince metav1.Time `json:"seenSince"`
}

// Curves are how many GPUs were allocated over time, by name.
type Curves struct {
	Times  []metav1.Time `json:"times"`
	Series []Series      `json:"series"`
}

// Series is one curve, with a number for each time.
type Series struct {
	Name string    `json:"name"`
	GPUs []float64 `json:"gpus"`
}

// SplitRow is what a queue, model or namespace has used, started and waits for.
type SplitRow struct {
	Name string `json:"name"`
	// GPUHours is nil if it is not known, and Waits if none has started.
	GPUHours *float64 `json:"gpuHours,omitempty"`
	Started  int      `json:"started"`
	Waits    *Waits   `json:"waits,omitempty"`
	Waiting  float64  `json:"waiting"`
}

// Waits is how long tasks have waited before they began.
type Waits struct {
	MedianSeconds float64 `json:"medianSeconds"`
	P95Seconds    float64 `json:"p95Seconds"`
}
