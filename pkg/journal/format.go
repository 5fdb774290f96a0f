// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import "time"

// Version is the version of the format.
const Version = 1

// Line is one line of a journal. Only one of its fields is set, and N if it is a change.
type Line struct {
	// N numbers the changes since the scheduler started, from 1.
	N          uint64      `json:"n,omitempty"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// Node is set, or Gone is the name of one that is removed.
	Node *Node  `json:"node,omitempty"`
	Gone string `json:"gone,omitempty"`
	// Pod is placed, or Left is the Name of one that is removed.
	Pod      *Pod      `json:"pod,omitempty"`
	Left     string    `json:"left,omitempty"`
	Learned  *Learned  `json:"learned,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
}

// Checkpoint begins a segment.
type Checkpoint struct {
	Version int `json:"version"`
	// Run identifies the process of the scheduler.
	Run  string    `json:"run"`
	Time time.Time `json:"time"`
	// Changes and Decisions are the numbers of the last ones before it.
	Changes   uint64 `json:"changes"`
	Decisions int    `json:"decisions"`
	Digest    string `json:"digest"`
	// Nodes and Pods are how many lines follow that describe the cluster.
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Levels are the names of the levels of topology, the widest first.
	Levels []string `json:"levels,omitempty"`
	// Tolerance is what a preference may cost.
	Tolerance float64 `json:"tolerance,omitempty"`
	// Policy is the name of the policy, and Memory what it has learned.
	Policy string  `json:"policy"`
	Memory *Memory `json:"memory,omitempty"`
}

// Node is a node without what runs there.
type Node struct {
	Name     string           `json:"name,omitempty"`
	CPU      int64            `json:"cpu"`    // milli-cores
	Memory   int64            `json:"memory"` // MiB
	Slots    int              `json:"slots"`  // how many Pods may run
	Others   map[string]int64 `json:"others,omitempty"`
	Hostname string           `json:"hostname,omitempty"`
	Model    string           `json:"model,omitempty"`
	Pool     string           `json:"pool,omitempty"`
	Traits   string           `json:"traits,omitempty"`
	Domains  []string         `json:"domains,omitempty"`
	GPUs     []GPUs           `json:"gpus,omitempty"`
	Closed   bool             `json:"closed,omitempty"`
}

// GPUs are several equal cards in a row.
type GPUs struct {
	Count  int   `json:"count"`
	Memory int64 `json:"memory,omitempty"` // MiB
	// Group is the NVLink group and NUMA the NUMA node, or -1.
	Group  int  `json:"group"`
	NUMA   int  `json:"numa"`
	Broken bool `json:"broken,omitempty"`
}

// Pod is a Pod with its place, or something else that holds one.
type Pod struct {
	// Name identifies it in the engine: the UID of a Pod.
	Name string `json:"name"`
	// Pod is the namespace and name of a Pod, Gang those of its gang.
	Pod  string `json:"pod,omitempty"`
	Gang string `json:"gang,omitempty"`
	// Seat is true for a Pod that was to be bound when it was placed.
	Seat    bool             `json:"seat,omitempty"`
	Node    string           `json:"node"`
	CPU     int64            `json:"cpu,omitempty"`    // milli-cores
	Memory  int64            `json:"memory,omitempty"` // MiB
	Others  map[string]int64 `json:"others,omitempty"`
	GPUs    []int            `json:"gpus,omitempty"` // the indices of the cards
	Percent int              `json:"percent,omitempty"`
	NoSlot  bool             `json:"noSlot,omitempty"`
}

// Shape is what one Pod needs.
type Shape struct {
	CPU       int64            `json:"cpu,omitempty"`    // milli-cores
	Memory    int64            `json:"memory,omitempty"` // MiB
	Others    map[string]int64 `json:"others,omitempty"`
	GPUs      int              `json:"gpus,omitempty"`
	Share     int              `json:"share,omitempty"` // percent of a GPU
	Models    []string         `json:"models,omitempty"`
	GPUMemory int64            `json:"gpuMemory,omitempty"` // MiB
	Pool      string           `json:"pool,omitempty"`
	// Selector and Preference are the keys of those of package snapshot.
	Selector   string     `json:"selector,omitempty"`
	Preference string     `json:"preference,omitempty"`
	Nodes      []NodeRule `json:"nodes,omitempty"`
}

// NodeRule restricts a Shape to some nodes, or keeps it off them.
type NodeRule struct {
	Hostnames bool     `json:"hostnames,omitempty"`
	Except    bool     `json:"except,omitempty"`
	Names     []string `json:"names"`
}

// Learned is a request that was counted as demand.
type Learned struct {
	Shape  *Shape `json:"shape"`
	Ending bool   `json:"ending,omitempty"`
}

// Memory is what the policy packing has learned: see packing.Memory.
type Memory struct {
	Shapes        []*Shape           `json:"shapes"`
	Mix           []Remembered       `json:"mix"`
	Unit          float64            `json:"unit"`
	Seen          int                `json:"seen"`
	RefreshAt     int                `json:"refreshAt"`
	CPUPerPercent float64            `json:"cpuPerPercent"`
	WholeNodes    float64            `json:"wholeNodes"`
	LargestCPU    float64            `json:"largestCPU"`
	Turnover      float64            `json:"turnover"`
	WholeNodeCPU  int64              `json:"wholeNodeCPU"`
	Cards         int                `json:"cards"`
	Worth         []float64          `json:"worth"`
	Futures       [][]int            `json:"futures"`
	Scarcity      map[string]float64 `json:"scarcity"`
	Groups        []Group            `json:"groups,omitempty"`
}

// Remembered is a request of the Memory.
type Remembered struct {
	Shape  int     `json:"shape"`
	Weight float64 `json:"weight"`
	Ending float64 `json:"ending,omitempty"`
}

// Group is nodes that the same requests depend on.
type Group struct {
	Dependent float64 `json:"dependent"`
	Kinds     []*Node `json:"kinds"`
}
