// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TaskDetails is all about one task.
type TaskDetails struct {
	Task        Task               `json:"task"`
	Manifest    string             `json:"manifest"`
	Explanation *Explanation       `json:"explanation,omitempty"`
	Members     []Member           `json:"members"`
	Conditions  []metav1.Condition `json:"conditions"`
	Events      []Event            `json:"events"`
	Actions     []Action           `json:"actions"`
}

// Explanation is why a task is in its state, or whether it would fit, and what would help.
type Explanation struct {
	Headline string      `json:"headline"`
	Lines    []show.Pair `json:"lines"`
	// Commands show what blocks it, or mend it.
	Commands []string           `json:"commands,omitempty"`
	Remedies []v1.WaitingRemedy `json:"remedies,omitempty"`
	Moves    []Move             `json:"moves,omitempty"`
	Places   []analysis.Place   `json:"places,omitempty"`
	// Placed is true if its Pods are at these places, and not only would be.
	Placed bool `json:"placed,omitempty"`
}

// Member is one of a task's Pods, with those that it replaced.
type Member struct {
	Name       string           `json:"name"`
	Node       string           `json:"node,omitempty"`
	GPUs       []int            `json:"gpus,omitempty"`
	Slices     map[string]int64 `json:"slices,omitempty"`
	Phase      string           `json:"phase"`
	Reason     string           `json:"reason,omitempty"`
	Containers []string         `json:"containers"`
	Spans      []Span           `json:"spans"`
}

// Event is an Event of a task or one of its Pods.
type Event struct {
	Time    metav1.Time `json:"time"`
	Count   int         `json:"count"`
	Type    string      `json:"type"`
	Object  string      `json:"object"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
}

// Action is something that can be done, with the command that does the same.
type Action struct {
	Name     string `json:"name"`
	Command  string `json:"command"`
	Question string `json:"question"`
}

// GPUDetails is all about one GPU.
type GPUDetails struct {
	Node    string           `json:"node"`
	Index   int              `json:"index"`
	UUID    string           `json:"uuid,omitempty"`
	Model   string           `json:"model,omitempty"`
	Memory  string           `json:"memory,omitempty"`
	Health  string           `json:"health"`
	Use     analysis.CardUse `json:"use"`
	Holders []GPUHolder      `json:"holders"`
	Slices  []GPUSlice       `json:"slices,omitempty"`
}

// GPUSlice is one of the MIG slices of a divided GPU, and the Pod that has it.
type GPUSlice struct {
	analysis.Slice
	UUID   string `json:"uuid"`
	Memory string `json:"memory"`
	Pod    string `json:"pod,omitempty"`
}

// GPUHolder is who holds a GPU, what for, and what it would cost to move it.
type GPUHolder struct {
	Namespace string      `json:"namespace"`
	Pod       string      `json:"pod"`
	Task      string      `json:"task,omitempty"`
	Since     metav1.Time `json:"since"`
	Percent   int         `json:"percent"`
	Slices    string      `json:"slices,omitempty"`
	Purpose   string      `json:"purpose"`
	Moving    string      `json:"moving"`
}

// WhatIf answers for each of several hypothetical tasks.
type WhatIf struct {
	Answers []WhatIfAnswer `json:"answers"`
	Notes   []string       `json:"notes,omitempty"`
}

// WhatIfAnswer is whether and when a hypothetical task would fit.
type WhatIfAnswer struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Verdict   analysis.Verdict `json:"verdict"`
	Explanation
}

// History is how the GPUs were used over time.
type History struct {
	Source  string   `json:"source"`
	Trouble string   `json:"trouble,omitempty"`
	Samples []Sample `json:"samples"`
}
