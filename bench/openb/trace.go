// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"strings"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// maxPods is how many Pods a node of the published simulator takes.
const maxPods = 1001

// milliPerPercent: the trace counts shares in thousandths of a GPU.
const milliPerPercent = 10

// pod is a line of the trace.
type pod struct {
	name  string
	shape placement.Shape
	// created and deleted are when it was there, in seconds.
	created, deleted int64
	// milli is the column gpu_milli, which counts one GPU only.
	milli int
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

// optional are columns that some traces lack.
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

func readNodes(path string) ([]placement.Node, error) {
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

func readPods(path string) ([]pod, error) {
	t, err := readTable(path)
	if err != nil {
		return nil, err
	}
	var pods []pod
	for i := range t.rows {
		r := &row{table: t, number: i}
		one := pod{
			name: r.text("name"), created: r.int("creation_time"), deleted: r.int("deletion_time"), milli: int(r.int("gpu_milli")),
			shape: placement.Shape{CPU: r.int("cpu_milli"), Memory: r.int("memory_mib")},
		}
		if models := r.text("gpu_spec"); models != "" {
			one.shape.Models = strings.Split(models, "|")
		}
		switch gpus := int(r.int("num_gpu")); {
		case gpus > 1 || one.milli == 1000:
			one.shape.GPUs = gpus
		case gpus == 1:
			one.shape.Share = one.milli / milliPerPercent
			if one.milli%milliPerPercent != 0 {
				r.fail(fmt.Errorf("column gpu_milli: %d is no whole number of percent", one.milli))
			}
		}
		if r.err != nil {
			return nil, r.err
		}
		pods = append(pods, one)
	}
	return pods, nil
}
