// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rows is what the page in a browser shows of a cluster, as rows of JSON. It is pure: a view of the cluster
// goes in. The words are those of the commands, from package show, and what the commands write with "-o json" has the
// same types. web/src/api.ts declares all of them for the page, with what each field means.
package rows

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Set is the rows of all collections, by collection and key.
type Set map[string]map[string]any

// The collections.
const (
	Summaries = "summary"
	Nodes     = "nodes"
	Load      = "load"
	Tasks     = "tasks"
	Waiting   = "waiting"
	Queues    = "queues"
	Plans     = "plans"
	Samples   = "samples"
)

// Summary is the only row of its collection; its key is empty.
type Summary struct {
	Server       string       `json:"server"`
	Context      string       `json:"context,omitempty"`
	User         string       `json:"user,omitempty"`
	Namespace    string       `json:"namespace"`
	Connected    bool         `json:"connected"`
	Trouble      string       `json:"trouble,omitempty"`
	TroubleSince *metav1.Time `json:"troubleSince,omitempty"`
	Hidden       []string     `json:"hidden,omitempty"`
	Problems     []string     `json:"problems,omitempty"`
	Levels       []string     `json:"levels"`
	// Priorities are the names of the PriorityClasses for tasks.
	Priorities   []string         `json:"priorities,omitempty"`
	Models       []analysis.Model `json:"models"`
	Total        analysis.Sum     `json:"total"`
	WaitingGPUs  string           `json:"waitingGPUs"`
	WaitingTasks int              `json:"waitingTasks"`
	RunningTasks int              `json:"runningTasks"`
	StrandedGPUs float64          `json:"strandedGPUs"`
	// StrandedFor is what the Pods ask for that can't use them.
	StrandedFor string `json:"strandedFor,omitempty"`
	Metered     bool   `json:"metered"`
	Prometheus  bool   `json:"prometheus"`
	Journal     bool   `json:"journal"`
}

// Node is a node with its GPUs.
type Node struct {
	Name    string   `json:"name"`
	Model   string   `json:"model,omitempty"`
	Pool    string   `json:"pool,omitempty"`
	Domains []string `json:"domains"`
	Notice  string   `json:"notice,omitempty"`
	GPUs    []Cell   `json:"gpus"`
	Holders []Holder `json:"holders,omitempty"`
}

// Cell is a GPU.
type Cell struct {
	Use     analysis.CardUse `json:"use"`
	Percent int              `json:"percent,omitempty"`
	// Holders are indices into those of the node.
	Holders []int  `json:"holders,omitempty"`
	Why     string `json:"why,omitempty"`
	// Slices are its MIG slices, if it is divided.
	Slices []Slice `json:"slices,omitempty"`
}

// Slice is a MIG slice of a GPU. Its Holder is the number of a holder of the node, from 1; 0 for none.
type Slice struct {
	analysis.Slice
	// Compute is how many of the GPU's compute slices it has.
	Compute int `json:"compute"`
	Holder  int `json:"holder,omitempty"`
}

// Holder is a Pod that holds GPUs.
type Holder struct {
	Namespace string      `json:"namespace"`
	Pod       string      `json:"pod"`
	Task      string      `json:"task,omitempty"`
	Priority  int32       `json:"priority"`
	Percent   int         `json:"percent"`
	Phase     string      `json:"phase"`
	Since     metav1.Time `json:"since"`
}

// Task is a GPUTask.
type Task struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Version   string `json:"version"`
	Phase     string `json:"phase"`
	Message   string `json:"message,omitempty"`
	GPU       string `json:"gpu,omitempty"`
	// Asks is what its Pods ask for, without the model; PodsNow is how many run, or are done.
	Asks     string       `json:"asks"`
	PodsNow  string       `json:"podsNow"`
	Profile  string       `json:"profile,omitempty"`
	Restarts int          `json:"restarts"`
	Moves    int          `json:"moves"`
	Priority string       `json:"priority,omitempty"`
	Queue    string       `json:"queue,omitempty"`
	Created  metav1.Time  `json:"created"`
	Started  *metav1.Time `json:"started,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`
	Nodes    []string     `json:"nodes,omitempty"`
	// Labels are what people find their tasks by.
	Labels map[string]string `json:"labels,omitempty"`
}

// Entry is something that waits for GPUs.
type Entry struct {
	analysis.LineEntry
	// Turn is its place among all that waits, from 0.
	Turn   int    `json:"turn"`
	Reason string `json:"reason"`
	Help   string `json:"help,omitempty"`
	// Remedies are what Help says, as changes each of which alone lets it start, unless its WaitingReason has them.
	Remedies []v1.WaitingRemedy `json:"remedies,omitempty"`
	// Never is true if it would not fit even if nothing else ran.
	Never          bool      `json:"never,omitempty"`
	EstimatedStart *Estimate `json:"estimatedStart,omitempty"`
}

// Estimate is when something is expected to start, and after what.
type Estimate struct {
	*v1.StartEstimate
	Message string `json:"message,omitempty"`
}

// Queue is a GPUQueue.
type Queue struct {
	Name      string                   `json:"name"`
	Parent    string                   `json:"parent,omitempty"`
	Depth     int                      `json:"depth"`
	Order     int                      `json:"order"`
	Resources []analysis.QueueResource `json:"resources"`
	Share     float64                  `json:"share"`
	Factor    *float64                 `json:"factor,omitempty"`
	Waiting   int                      `json:"waiting"`
	Running   int                      `json:"running"`
	Problem   string                   `json:"problem,omitempty"`
}

// Plan is a MovePlan.
type Plan struct {
	Name           string `json:"name"`
	UID            string `json:"uid"`
	Phase          string `json:"phase"`
	Goal           string `json:"goal"`
	Reason         string `json:"reason"`
	Message        string `json:"message,omitempty"`
	For            string `json:"for,omitempty"`
	Approved       bool   `json:"approved"`
	Aborted        bool   `json:"aborted"`
	CostGPUSeconds int64  `json:"costGPUSeconds"`
	LostGPUSeconds int64  `json:"lostGPUSeconds"`
	// CostNow is what it would cost if it were approved now, about; absent if that is not known, or it is too late.
	CostNow  int64            `json:"costNow,omitempty"`
	Gain     string           `json:"gain"`
	RealGain string           `json:"realGain,omitempty"`
	Moves    []Move           `json:"moves"`
	Places   []analysis.Place `json:"places,omitempty"`
	Created  metav1.Time      `json:"created"`
	Finished *metav1.Time     `json:"finished,omitempty"`
}

// Move is one Pod that leaves its place.
type Move struct {
	Task           string         `json:"task"`
	Pod            string         `json:"pod"`
	GPUs           string         `json:"gpus"`
	From           analysis.Place `json:"from"`
	To             analysis.Place `json:"to"`
	State          string         `json:"state"`
	CostGPUSeconds int64          `json:"costGPUSeconds"`
	Reason         string         `json:"reason,omitempty"`
}

// Sample is one moment of the history, in GPUs.
type Sample struct {
	Time      metav1.Time `json:"time"`
	Total     float64     `json:"total"`
	Allocated float64     `json:"allocated"`
	Stranded  float64     `json:"stranded"`
	Waiting   float64     `json:"waiting"`
	Unhealthy float64     `json:"unhealthy"`
}
