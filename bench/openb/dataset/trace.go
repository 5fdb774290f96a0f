// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dataset reads the openb trace: its nodes, its Pods, and streams of jobs made
// of these. docs/benchmarks.md says where it comes from.
package dataset

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"strings"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// maxPods is the Pod capacity of a node of the published simulator.
const maxPods = 1001

// The trace counts shares in thousandths of a GPU.
const (
	MilliPerCard    = 1000
	milliPerPercent = MilliPerCard / placement.Card
)

// NodesFile is the name of the file with the nodes; PodsFile, with the name of a
// trace, that of one with Pods.
const (
	NodesFile = "openb_node_list_gpu_node.csv"
	PodsFile  = "openb_pod_list_%s.csv"
)

// Pod is a line of the trace.
type Pod struct {
	Name  string
	Shape placement.Shape
	// Created and Deleted are when it was created and deleted, in seconds.
	Created, Deleted int64
	// Milli is the column gpu_milli, which counts a single GPU.
	Milli int
}

// table is a CSV file with a header.
type table struct {
	path    string
	columns map[string]int
	rows    [][]string
}

func readTable(path string) (*table, error) {
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) < 2 {
		return nil, fmt.Errorf("%s: there is no line after the header", path)
	}
	t := &table{path: path, columns: map[string]int{}, rows: rows[1:]}
	for i, name := range rows[0] {
		t.columns[name] = i
	}
	return t, nil
}

// optional are columns that some traces do not have.
var optional = map[string]bool{"gpu_spec": true, "creation_time": true, "deletion_time": true}

// row reads one line; the first error is kept.
type row struct {
	*table
	number int
	err    error
}

func (r *row) text(column string) string {
	i, known := r.columns[column]
	if !known && !optional[column] {
		r.fail(fmt.Errorf("there is no column %s", column))
	}
	if !known {
		return ""
	}
	return r.rows[r.number][i]
}

func (r *row) int(column string) int64 {
	text := r.text(column)
	if text == "" {
		return 0
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.fail(fmt.Errorf("column %s: %w", column, err))
	}
	return int64(value)
}

func (r *row) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%s:%d: %w", r.path, r.number+2, err)
	}
}

// ReadNodes reads a file of nodes.
func ReadNodes(path string) ([]placement.Node, error) {
	t, err := readTable(path)
	if err != nil {
		return nil, err
	}
	var nodes []placement.Node
	for i := range t.rows {
		r := &row{table: t, number: i}
		node := placement.Node{
			Name: r.text("sn"), CPU: r.int("cpu_milli"), Memory: r.int("memory_mib"), Slots: maxPods, Model: r.text("model"),
		}
		for range r.int("gpu") {
			node.GPUs = append(node.GPUs, placement.GPU{Group: -1, NUMA: -1})
		}
		if r.err != nil {
			return nil, r.err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// ReadPods reads a file of Pods.
func ReadPods(path string) ([]Pod, error) {
	t, err := readTable(path)
	if err != nil {
		return nil, err
	}
	var pods []Pod
	for i := range t.rows {
		r := &row{table: t, number: i}
		one := Pod{
			Name: r.text("name"), Created: r.int("creation_time"), Deleted: r.int("deletion_time"), Milli: int(r.int("gpu_milli")),
			Shape: placement.Shape{CPU: r.int("cpu_milli"), Memory: r.int("memory_mib")},
		}
		if models := r.text("gpu_spec"); models != "" {
			one.Shape.Models = strings.Split(models, "|")
		}
		switch gpus := int(r.int("num_gpu")); {
		case gpus > 1 || one.Milli == MilliPerCard:
			one.Shape.GPUs = gpus
		case gpus == 1:
			one.Shape.Share = one.Milli / milliPerPercent
			if one.Milli%milliPerPercent != 0 {
				r.fail(fmt.Errorf("column gpu_milli: %d is no whole number of percent", one.Milli))
			}
		}
		if r.err != nil {
			return nil, r.err
		}
		pods = append(pods, one)
	}
	return pods, nil
}
