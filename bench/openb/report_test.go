// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/bench/document"
	"falldio.github.io/gpu-controller/bench/openb/dataset"
)

func TestAReportHasEveryPartAndKeepsTheRest(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString("# Title\n")
	for _, name := range partNames() {
		text.WriteString(marked(name).Begin() + marked(name).End() + "after " + name + "\n")
	}
	path := filepath.Join(dir, document.Name)
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := newReport(&options{report: dir, data: "testdata", seed: 42, seeds: 1, load: 0.8, jobs: 100}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	r.examples = []string{"tiny"}
	if err := r.write(partNames()); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range partNames() {
		if !strings.Contains(string(written), "after "+name) {
			t.Errorf("the text after part %s is gone", name)
		}
	}
	for _, want := range []string{"# Title", "| tiny |", "| untimed |", "FGD published", "| Worth |", "p99 wait", demandPlot} {
		if !strings.Contains(string(written), want) {
			t.Errorf("%q is missing in\n%s", want, written)
		}
	}
	for _, name := range []string{demandPlot, gainPlot} {
		if picture, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Contains(picture, []byte("<svg")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPublishedTracesComeFirst(t *testing.T) {
	dir := t.TempDir()
	for _, trace := range []string{"aaa", "cpu050", "default"} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(dataset.PodsFile, trace)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := tracesIn(dir)
	if err != nil || !slices.Equal(got, []string{"default", "cpu050", "aaa"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestEveryParameterOfOursCanBeLeftOut(t *testing.T) {
	for _, name := range weights() {
		if parameters(name) == parameters("") {
			t.Errorf("%s: nothing has changed", name)
		}
	}
	if slices.Contains(weights(), "HalfLife") {
		t.Error("a mix without a half-life is none")
	}
}
