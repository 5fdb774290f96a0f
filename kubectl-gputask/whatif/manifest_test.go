// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) (*Manifests, error) {
	t.Helper()
	return Parse(strings.NewReader(text), "the text")
}

func TestWhatKubectlTakesIsRead(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: falldio.com/v1\nkind: GPUTask\n"
	for name, test := range map[string]struct {
		text           string
		tasks, skipped []string
	}{
		"several documents":                    {head + "metadata: {name: a}\n---\n" + head + "metadata: {name: b}\n", []string{"a", "b"}, nil},
		"comments and empty documents":         {"# first\n---\n---\n" + head + "metadata: {name: a}\n---\n# last\n", []string{"a"}, nil},
		"a document without a line at its end": {head + "metadata: {name: a}", []string{"a"}, nil},
		"lines that end as on Windows":         {strings.ReplaceAll(head+"metadata: {name: a}\n---\n"+head+"metadata: {name: b}\n", "\n", "\r\n"), []string{"a", "b"}, nil},
		"numbers as amounts":                   {head + "metadata: {name: a}\nspec: {gpu-amount: 8, cpu: 0.5, memory: 17179869184, roles: [{name: x, gpu-amount: 0}]}\n", []string{"a"}, nil},
		"JSON":                                 {"{\n\t\"apiVersion\": \"falldio.com/v1\", \"kind\": \"GPUTask\", \"metadata\": {\"name\": \"a\"}}", []string{"a"}, nil},
		"JSON objects one after the other":     {`{"apiVersion":"falldio.com/v1","kind":"GPUTask","metadata":{"name":"a"}}{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`, []string{"a"}, []string{"document 1: Secret s"}},
		"YAML that begins with a brace":        {"{apiVersion: falldio.com/v1, kind: GPUTask, metadata: {name: a}}", []string{"a"}, nil},
		"a list":                               {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: falldio.com/v1\n  kind: GPUTask\n  metadata: {name: a}\n- {apiVersion: v1, kind: Service, metadata: {name: s}}\n", []string{"a"}, []string{"document 1, items[1]: Service s"}},
		"a list of tasks, as the API has it":   {"apiVersion: falldio.com/v1\nkind: GPUTaskList\nmetadata: {}\nitems:\n- metadata: {name: a}\n", []string{"a"}, nil},
		"other kinds":                          {"kind: Namespace\napiVersion: v1\nmetadata: {name: ns}\n---\n" + head + "metadata: {name: a}\n---\nkind: Thing\napiVersion: x/v1\n", []string{"a"}, []string{"document 1: Namespace ns", "document 3: Thing"}},
		"what kubectl get writes":              {head + "metadata:\n  name: a\n  creationTimestamp: \"2026-11-21T12:00:00Z\"\n  managedFields: [{manager: m, fieldsV1: {\"f:spec\": {}}}]\nspec:\n  template:\n    metadata: {creationTimestamp: null}\n    spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}}, ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: http}}}]}\nstatus: {phase: Running}\n", []string{"a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := parse(t, test.text)
			if err != nil {
				t.Fatal(err)
			}
			var tasks []string
			for _, task := range found.Tasks {
				tasks = append(tasks, task.Name)
			}
			if !slices.Equal(tasks, test.tasks) || !slices.Equal(found.Skipped, test.skipped) {
				t.Errorf("tasks %v, skipped %q; want %v and %q", tasks, found.Skipped, test.tasks, test.skipped)
			}
		})
	}
}

func TestWhatIsWrongInAManifestIsSaidInWords(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"gpuAmount: 8":               "unknown field spec.gpuAmount: did you mean spec.gpu-amount?",
		"gpu-memory: 40G":            "unknown field spec.gpu-memory: did you mean spec.gpuMemory?",
		"node-pool: a":               "unknown field spec.node-pool: did you mean spec.nodePool?",
		"gpus: 2":                    "unknown field spec.gpus: did you mean spec.gpu-amount?",
		"Replicas: 2":                "unknown field spec.Replicas: did you mean spec.replicas?",
		"priorityClassName: high":    "unknown field spec.priorityClassName: did you mean spec.priority?",
		"image: x":                   "unknown field spec.image: did you mean spec.template.spec.containers[0].image, or kubectl gputask run --image?",
		"command: [x]":               "unknown field spec.command: did you mean spec.template.spec.containers[0].command, or kubectl gputask run NAME -- COMMAND?",
		"env: [{name: a}]":           "unknown field spec.env: did you mean spec.template.spec.containers[0].env, or kubectl gputask run --env?",
		"nodeSelector: {a: b}":       "unknown field spec.nodeSelector: did you mean spec.template.spec.nodeSelector?",
		"labels: {a: b}":             "unknown field spec.labels: did you mean spec.template.metadata.labels?",
		"frobnicate: 1":              "unknown field spec.frobnicate: kubectl explain gputask.spec lists the fields",
		"template: {containers: []}": "unknown field spec.template.containers: did you mean spec.template.spec.containers?",
		"template: {spec: {containers: [{imgae: x}]}}": "unknown field spec.template.spec.containers[0].imgae: did you mean spec.template.spec.containers[0].image?",
		"topology: {levl: rack}":                       "unknown field spec.topology.levl: did you mean spec.topology.level?",
		"gpu-amount: [8]":                              "spec.gpu-amount: Invalid value: [8]: must be text or a number",
		"cpu: true":                                    "spec.cpu: Invalid value: true: must be text or a number",
		"gpu: 4090":                                    `spec.gpu: Invalid value: 4090: must be text; put it in quotes: "4090"`,
		"replicas: many":                               `spec.replicas: Invalid value: "many": must be a whole number`,
		`replicas: "2"`:                                `spec.replicas: Invalid value: "2": must be a whole number`,
		"replicas: 1.5":                                "spec.replicas: Invalid value: 1.5: must be a whole number",
		"suspend: 1":                                   "spec.suspend: Invalid value: 1: must be true or false",
		"dependsOn: a":                                 `spec.dependsOn: Invalid value: "a": must be a list`,
		"topology: rack":                               `spec.topology: Invalid value: "rack": must be an object with fields`,
		"roles: [{name: a, gpuAmount: 0}]":             "unknown field spec.roles[0].gpuAmount: did you mean spec.roles[0].gpu-amount?",
	} {
		text := "apiVersion: falldio.com/v1\nkind: GPUTask\nmetadata: {name: a}\nspec:\n  " + spec + "\n"
		if _, err := parse(t, text); err == nil || err.Error() != "reading the text: line 5: "+want {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}

func TestLinesAreThoseOfTheWholeText(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: falldio.com/v1\nkind: GPUTask\n"
	for text, line := range map[string]int{
		head + "gpu: h100\n": 3,
		"# one\n\n---\n" + head + "metadata: {name: a}\nspec:\n  gpu: a\n---\n" + head + "spec:\n  roles:\n  - name: x\n    gpuAmount: 1\n": 15,
		"kind: List\napiVersion: v1\nitems:\n- " + strings.ReplaceAll(head, "\n", "\n  ") + "spec:\n    gpus: 1\n":                          7,
	} {
		if _, err := parse(t, text); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("line %d: ", line)) {
			t.Errorf("%v, want line %d of\n%s", err, line, text)
		}
	}
}

// Aliases make a short text a long one.
func TestAliasesDoNotTakeAllMemory(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("a: &a [x, x, x, x, x, x, x, x, x]\n")
	for c := 'b'; c < 'z'; c++ {
		fmt.Fprintf(&text, "%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 8), c-1)
	}
	if _, err := parse(t, text.String()); err == nil {
		t.Error("it is read")
	}
}
