// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

// queueKind is the other kind that users write.
const queueKind = "GPUQueue"

// foreignKinds are the kinds of other projects that the documents show beside ours.
var foreignKinds = []string{"JobSet", "PyTorchJob"}

// TestTheAPIServerAcceptsWhatTheDocumentsShow creates every GPUTask and GPUQueue that the documents
// and the examples contain, in a dry run with strict validation: a field that does not exist is
// refused.
func TestTheAPIServerAcceptsWhatTheDocumentsShow(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	files, err := filepath.Glob(filepath.Join(programs.Root(), "artifacts", "examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found no examples: %v", err)
	}
	documents := []string{
		"README.md", "docs/gputask.md", "docs/gputask-fields.md", "docs/gputask-failures.md", "docs/coming-from.md", "docs/gpuqueue.md",
	}
	for _, document := range documents {
		files = append(files, filepath.Join(programs.Root(), document))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			tasks := tasksShownIn(t, file)
			if len(tasks) == 0 {
				t.Fatal("shows no GPUTask")
			}
			t.Logf("GPUTasks shown: %d", len(tasks))
			for _, shown := range tasks {
				if err := s.dryRun(t, shown.task); err != nil {
					t.Errorf("%s: %v", shown.where, err)
				}
			}
		})
	}
}

// TestAMisspeltFieldOfADocumentIsNoticed makes sure that the test above can fail.
func TestAMisspeltFieldOfADocumentIsNoticed(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const object = "apiVersion: falldio.com/v1\nkind: GPUTask\nmetadata: {name: train}\n"
	tests := map[string]struct {
		text string
		want string
	}{
		"in a fragment":       {text: "spec: {replicsa: 4}", want: `unknown field "spec.replicsa"`},
		"in an object":        {text: object + `spec: {roles: [{name: a, gpuAmount: "1"}]}`, want: `unknown field "spec.roles[0].gpuAmount"`},
		"in a template":       {text: "spec: {template: {spec: {containers: [{name: a, imgae: b}]}}}", want: `unknown field "spec.template.spec.containers[0].imgae"`},
		"a value":             {text: "spec: {rendezvous: Services}", want: `spec.rendezvous: Unsupported value: "Services"`},
		"a field twice":       {text: "spec: {gpu: a, gpu: b}", want: `key "gpu" already set`},
		"a kind":              {text: "kind: GPUTsak\nspec: {}", want: `the kind "GPUTsak" is neither ours nor known to be another project's`},
		"what can't be taken": {text: "roles: [{name: a}]", want: "is neither an object nor a fragment that begins with spec:"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tasks, err := parseShown([]byte(tc.text))
			for _, task := range tasks {
				err = errors.Join(err, s.dryRun(t, task))
			}
			checkRefusal(t, err, tc.want)
		})
	}
}

// dryRun creates a task without keeping it.
func (s *suite) dryRun(t *testing.T, task *unstructured.Unstructured) error {
	t.Helper()
	version := v1.TaskKind().GroupVersion()
	var objects dynamic.ResourceInterface = s.cluster.dynamic.Resource(version.WithResource("gpuqueues"))
	if task.GetKind() != queueKind {
		objects = s.cluster.dynamic.Resource(version.WithResource("gputasks")).Namespace(s.namespace)
	}
	_, err := objects.Create(t.Context(), task, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

// shownTask is a GPUTask that a file shows.
type shownTask struct {
	task  *unstructured.Unstructured
	where string
}

// tasksShownIn returns the GPUTasks of a YAML file, or those of the YAML blocks of a document.
func tasksShownIn(t *testing.T, file string) []shownTask {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	blocks := []block{{text: content, line: 1}}
	if filepath.Ext(file) == ".md" {
		blocks = yamlBlocks(content)
	}
	var shown []shownTask
	for _, b := range blocks {
		where := fmt.Sprintf("%s:%d", filepath.Base(file), b.line)
		tasks, err := parseShown(b.text)
		if err != nil {
			t.Errorf("%s: %v", where, err)
		}
		for _, task := range tasks {
			shown = append(shown, shownTask{task: task, where: where})
		}
	}
	return shown
}

// block is a fenced block of a document, and the line on which it begins.
type block struct {
	text []byte
	line int
}

// yamlBlocks returns the blocks of a document that are marked as YAML, without the indentation
// that they have in lists.
func yamlBlocks(document []byte) []block {
	const fence = "```"
	var blocks []block
	indentation, inside := "", false
	for number, line := range strings.Split(string(document), "\n") {
		text := strings.TrimSpace(line)
		switch {
		case inside && text == fence:
			inside = false
		case inside:
			last := &blocks[len(blocks)-1]
			last.text = append(last.text, strings.TrimPrefix(line, indentation)+"\n"...)
		case text == fence+"yaml":
			inside = true
			indentation, _, _ = strings.Cut(line, fence)
			blocks = append(blocks, block{line: number + 2}) // lines count from 1, and the fence is not part of it
		}
	}
	return blocks
}

// parseShown returns the GPUTasks of a YAML text. A fragment that consists of a spec is taken for
// one; objects of other projects are left out.
func parseShown(text []byte) ([]*unstructured.Unstructured, error) {
	var tasks []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		content, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return tasks, nil
		}
		if err != nil {
			return nil, err
		}
		object := map[string]any{}
		if err := yaml.UnmarshalStrict(content, &object); err != nil {
			return nil, err
		}
		task := &unstructured.Unstructured{Object: object}
		_, hasSpec := object["spec"]
		switch {
		case hasSpec && len(object) == 1:
			task.SetGroupVersionKind(v1.TaskKind())
			task.SetName("fragment")
			tasks = append(tasks, task)
		case task.GetKind() == "":
			return nil, fmt.Errorf("%q is neither an object nor a fragment that begins with spec:", content)
		case task.GetKind() == v1.TaskKind().Kind, task.GetKind() == queueKind:
			tasks = append(tasks, task)
		case !slices.Contains(foreignKinds, task.GetKind()):
			return nil, fmt.Errorf("the kind %q is neither ours nor known to be another project's", task.GetKind())
		}
	}
}
