// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"testing"
	"testing/fstest"

	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzLoad reads any YAML as a file with examples. What is accepted has a task, and nothing in it is
// of another kind.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("apiVersion: falldio.com/v1\nkind: GPUTask\nmetadata: {name: a}\nspec: {gpu-amount: \"1\"}\n---\nkind: GPUQueue\n"))
	f.Add([]byte("---\n---\n"))
	f.Add([]byte("kind: GPUTask\nspec: {gpus: 1}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var loaded *Examples
		var err error
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(text), func() { loaded, err = Load(fstest.MapFS{"a/a.yaml": {Data: text}}, "a") })
		if err != nil {
			return
		}
		if len(loaded.Tasks) == 0 {
			t.Error("there is no task")
		}
		for _, task := range loaded.Tasks {
			if task.Kind != "GPUTask" {
				t.Errorf("a task is a %q", task.Kind)
			}
		}
	})
}
