// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestTheFirstManifest types what people type first, most of it wrong. Each input has two answers: that of the API
// server, which "kubectl apply" shows, and that of "kubectl gputask whatif", which the page gives as well. The latter
// names no type of Go, and no name that nobody has given.
func TestTheFirstManifest(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const head = "apiVersion: falldio.com/v1\nkind: GPUTask\nmetadata:\n  name: example\nspec:\n"
	const limits = "  template: {spec: {containers: [{name: main, image: x, resources: {limits: "
	for name, tc := range map[string]struct {
		// spec is the text after "spec:", file all of a file.
		spec, file string
		// refused is part of the API server's refusal, empty if it accepts the task, and answer part of that of whatif.
		refused, answer string
	}{
		"a number of GPUs":              {spec: "  gpu-amount: 2\n", answer: "asks for 2 GPUs"},
		"a number of CPUs":              {spec: "  cpu: 8\n", answer: "8 CPU"},
		"amounts in quotes":             {spec: "  gpu-amount: \"2\"\n  cpu: \"8\"\n  memory: 16Gi\n", answer: "asks for 2 GPUs, 8 CPU, 16Gi memory"},
		"half a GPU in quotes":          {spec: "  gpu-amount: \"0.5\"\n", answer: "asks for 0.5 of a GPU"},
		"one and a half GPUs":           {spec: "  gpu-amount: \"1.5\"\n", refused: `spec.gpu-amount: Invalid value: "1.5": must be a whole number of GPUs`, answer: `line 6: spec.gpu-amount: Invalid value: "1.5": must be a whole number of GPUs from "1" to "9999", or a share`},
		"no GPU":                        {spec: "  gpu-amount: 0\n", refused: "must be a whole number of GPUs", answer: `spec.gpu-amount: Invalid value: "0": must be a whole number of GPUs`},
		"a list as an amount":           {spec: "  gpu-amount: [2]\n", refused: "spec.gpu-amount", answer: "line 6: spec.gpu-amount: Invalid value: [2]: must be text or a number"},
		"memory without its unit":       {spec: "  memory: 16\n", refused: "must be a quantity from 4Mi to 1Pi with its unit", answer: "line 6: spec.memory: Invalid value: \"16\": must be a quantity from 4Mi to 1Pi with its unit, for example \"16Gi\""},
		"gpuAmount":                     {spec: "  gpuAmount: 8\n", refused: `unknown field "spec.gpuAmount"`, answer: "line 6: unknown field spec.gpuAmount: did you mean spec.gpu-amount?"},
		"gpu-memory":                    {spec: "  gpu-memory: 40G\n", refused: `unknown field "spec.gpu-memory"`, answer: "line 6: unknown field spec.gpu-memory: did you mean spec.gpuMemory?"},
		"node-pool":                     {spec: "  node-pool: training\n", refused: `unknown field "spec.node-pool"`, answer: "line 6: unknown field spec.node-pool: did you mean spec.nodePool?"},
		"gpus":                          {spec: "  gpus: 2\n", refused: `unknown field "spec.gpus"`, answer: "did you mean spec.gpu-amount?"},
		"an image in the spec":          {spec: "  image: pytorch\n", refused: `unknown field "spec.image"`, answer: "did you mean spec.template.spec.containers[0].image, or kubectl gputask run --image?"},
		"a command in the spec":         {spec: "  command: [python]\n", refused: `unknown field "spec.command"`, answer: "did you mean spec.template.spec.containers[0].command, or kubectl gputask run NAME -- COMMAND?"},
		"containers in the template":    {spec: "  template:\n    containers: []\n", refused: `unknown field "spec.template.containers"`, answer: "line 7: unknown field spec.template.containers: did you mean spec.template.spec.containers?"},
		"a model in capital letters":    {spec: "  gpu: H100\n", answer: "no node has H100 (did you mean h100-80gb-hbm3?); models here: "},
		"a model that is too short":     {spec: "  gpu: h100\n", answer: "no node has h100 (did you mean h100-80gb-hbm3?); models here: "},
		"a model with a space":          {spec: "  gpu: RTX 4090\n", refused: `spec.gpu: Invalid value: "RTX 4090": must be a GPU model`, answer: `line 6: spec.gpu: Invalid value: "RTX 4090": must be a GPU model`},
		"limits of nvidia.com/gpu":      {spec: limits + "{nvidia.com/gpu: 2}}}]}}\n", refused: "spec.template.spec.containers: Invalid value: contradicts gpu-amount", answer: "line 6: spec.template.spec.containers: Invalid value: contradicts gpu-amount, which says how many GPUs each Pod gets (1 if it is left out): set gpu-amount, and leave the limits"},
		"limits that are equal":         {spec: "  gpu-amount: 2\n" + limits + "{nvidia.com/gpu: 2}}}]}}\n", answer: "asks for 2 GPUs"},
		"another limit of cpu":          {spec: "  cpu: 8\n" + limits + "{cpu: 4}}}]}}\n", refused: "the limit of cpu contradicts the task's cpu", answer: "the limit of cpu contradicts the task's cpu, which the container gets"},
		"a level that is misspelt":      {spec: "  replicas: 2\n  topology: {level: rakc}\n", answer: `there is no topology level "rakc"; the levels are zone, rack and leaf (did you mean rack?)`},
		"a mode that there is not":      {spec: "  topology: {level: leaf, mode: Strict}\n", refused: `spec.topology.mode: Unsupported value: "Strict": supported values: "Required", "Preferred"`, answer: `line 6: spec.topology.mode: Unsupported value: "Strict": supported values: "Required", "Preferred"`},
		"a priority that there is not":  {spec: "  priority: high\n", answer: `spec.priority: there is no PriorityClass "high"; there are `},
		"minAvailable of too many":      {spec: "  replicas: 2\n  minAvailable: 3\n", refused: "spec.minAvailable: Invalid value: must not be greater than spec.replicas", answer: "line 7: spec.minAvailable: Invalid value: must not be greater than spec.replicas"},
		"a Pod that never ends":         {spec: "  template: {spec: {restartPolicy: Always}}\n", refused: "spec.template.spec.restartPolicy: Invalid value: must be Never or OnFailure", answer: "line 6: spec.template.spec.restartPolicy: Invalid value: must be Never or OnFailure"},
		"a condition that there is not": {spec: "  dependsOn: [{name: a, condition: Done}]\n", refused: `spec.dependsOn[0].condition: Unsupported value: "Done"`, answer: `spec.dependsOn[0].condition: Unsupported value: "Done": supported values: `},
		"a number as a name":            {spec: "  gpu: 4090\n", refused: "spec.gpu: Invalid value", answer: `line 6: spec.gpu: Invalid value: 4090: must be text; put it in quotes: "4090"`},
		"words as a number":             {spec: "  replicas: two\n", refused: "spec.replicas: Invalid value", answer: `line 6: spec.replicas: Invalid value: "two": must be a whole number`},
		"no spec around the fields":     {file: "apiVersion: falldio.com/v1\nkind: GPUTask\nmetadata: {name: example}\ngpu: a\nspec: {}\n", refused: `unknown field "gpu"`, answer: "line 4: unknown field gpu: did you mean spec.gpu?"},
		"a file with other kinds":       {file: head + "  gpu-amount: 1\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n", answer: "document 2: ConfigMap settings"},
		"no YAML":                       {file: "apiVersion: falldio.com/v1\n\tkind: GPUTask\n", answer: "yaml: line 2: found "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := tc.file
			if text == "" {
				text = head + tc.spec
			}
			first, _, _ := strings.Cut(text, "\n---\n")
			var fields map[string]any
			if err := yaml.Unmarshal([]byte(first), &fields); err == nil {
				checkRefusal(t, s.dryRun(t, &unstructured.Unstructured{Object: fields}), tc.refused)
			}
			file := filepath.Join(t.TempDir(), "task.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, errOut, _ := s.gputask("whatif", "-f", file).outcome(s)
			if all := out + errOut; !strings.Contains(all, tc.answer) || strings.Contains(all, "Go ") || strings.Contains(all, "json:") || strings.Contains(all, `"example`) {
				t.Errorf("whatif answers\n%s\nwant %q", all, tc.answer)
			}
		})
	}
}

// TestNumbersAreStoredAsText: with artifacts/numbers, clients of before read what was written as a number.
func TestNumbersAreStoredAsText(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.mustKubectl("apply", "-k", "artifacts/numbers")
	object := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "falldio.com/v1", "kind": "GPUTask", "metadata": map[string]any{"name": "numbers"},
			"spec": map[string]any{"gpu-amount": 0.5, "cpu": int64(8), "memory": "1Gi", "suspend": true, "roles": []any{
				map[string]any{"name": "a", "gpu-amount": int64(0), "memory": int64(4 << 30)}, map[string]any{"name": "b", "cpu": 1.5},
			}},
		}}
	}
	tasks := s.cluster.dynamic.Resource(v1.TaskKind().GroupVersion().WithResource("gputasks")).Namespace(s.namespace)
	s.eventually("a task with numbers, and a fraction, is stored with text", func() (bool, string) {
		_ = tasks.Delete(t.Context(), "numbers", metav1.DeleteOptions{})
		created, err := tasks.Create(t.Context(), object(), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			return false, err.Error()
		}
		spec, _, _ := unstructured.NestedMap(created.Object, "spec")
		encoded, err := json.Marshal(map[string]any{"gpu-amount": spec["gpu-amount"], "cpu": spec["cpu"], "memory": spec["memory"], "roles": spec["roles"]})
		text := string(encoded)
		const want = `{"cpu":"8","gpu-amount":"0.5","memory":"1Gi","roles":[{"gpu-amount":"0","memory":"4294967296","name":"a","replicas":1},{"cpu":"1.5","name":"b","replicas":1}]}`
		return err == nil && text == want, text
	})
	file := filepath.Join(t.TempDir(), "task.yaml")
	text, err := yaml.Marshal(object().Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"--server-side=false", "--server-side=true"} {
		s.mustKubectl("apply", "--namespace="+s.namespace, how, "--force-conflicts="+strings.TrimPrefix(how, "--server-side="), "-f", file)
	}
}
