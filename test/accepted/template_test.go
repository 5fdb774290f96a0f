// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accepted_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// taskOf returns a task with this spec.
func taskOf(t *testing.T, spec string) map[string]any {
	t.Helper()
	object := objectIn(fmt.Appendf(nil, `{"apiVersion": "falldio.com/v1", "kind": "GPUTask", "metadata": {"name": "train"}, "spec": %s}`, spec))
	if object == nil {
		t.Fatalf("not a spec: %s", spec)
	}
	return object
}

func volumesOf(count int) string {
	names := make([]map[string]string, count)
	for i := range names {
		names[i] = map[string]string{"name": fmt.Sprintf("v%d", i)}
	}
	text, _ := json.Marshal(names) //nolint:errchkjson // maps of strings can't fail
	return string(text)
}

func TestATemplateLeavesRoomForTheStatusInTheStore(t *testing.T) {
	t.Parallel()
	v := validator(t, "gputasks")
	const tooMuchText = "must not have more than 1 MiB together"
	of := func(length int) string {
		half := strings.Repeat("a", length/2)
		return fmt.Sprintf(`{"template": {"metadata": {"annotations": {"a": %q}}, "spec": {"containers": [{"name": "gpu-task", "args": [%q]}]}}}`, half, half)
	}
	if err := v.Create(taskOf(t, of(1<<20))); err != nil {
		t.Errorf("1 MiB is refused: %v", err)
	}
	if err := v.Create(taskOf(t, of(1<<20+2))); err == nil || !strings.Contains(err.Error(), tooMuchText) {
		t.Errorf("more than 1 MiB: %v, want %q", err, tooMuchText)
	}
}

func TestATemplateIsBoundedTogetherWithTheNumberOfItsPods(t *testing.T) {
	t.Parallel()
	v := validator(t, "gputasks")
	const tooMuchText = "must not have more than 256 MiB together"
	container := func(list, content string) string {
		return fmt.Sprintf(`{"replicas": %%d, "template": {"spec": {%q: [{"name": "gpu-task", %s}]}}}`, list, content)
	}
	long := strings.Repeat("a", 100<<10)
	for name, test := range map[string]struct{ spec, want string }{
		"many volumes":               {`{"replicas": %d, "template": {"spec": {"volumes": ` + volumesOf(257) + `}}}`, "must have at most 256 items"},
		"many tolerations":           {`{"replicas": %d, "template": {"spec": {"tolerations": [{}` + strings.Repeat(",{}", 256) + `]}}}`, "must have at most 256 items"},
		"long arguments":             {container("containers", `"args": ["`+long+`"]`), tooMuchText},
		"a long command":             {container("containers", `"command": ["`+long+`"]`), tooMuchText},
		"long variables":             {container("initContainers", `"env": [{"name": "A", "value": "`+long+`"}, {"name": "B"}]`), tooMuchText},
		"long annotations":           {`{"replicas": %d, "template": {"metadata": {"annotations": {"a": "` + long + `"}}}}`, tooMuchText},
		"a large gang of small Pods": {container("containers", `"args": ["train.py"]`), ""},
	} {
		spec := fmt.Sprintf(test.spec, 4096)
		err := v.Create(taskOf(t, spec))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if test.want == tooMuchText {
			if err := v.Create(taskOf(t, fmt.Sprintf(test.spec, 1))); err != nil {
				t.Errorf("%s in one Pod: %v", name, err)
			}
		}
		// Of a version without these rules.
		stored, suspended := taskOf(t, spec), taskOf(t, spec)
		_, _ = v.Create(stored), v.Create(suspended)         // fills in the defaults
		suspended["spec"].(map[string]any)["suspend"] = true //nolint:forcetypeassert // it is a map
		if err := v.Update(stored, suspended); err != nil {
			t.Errorf("%s: a task that is stored already can't be suspended: %v", name, err)
		}
	}
}

// Tasks of a version without these rules.
func TestATaskWhosePoliciesCanNeverBeMetIsRefusedButCanBeSuspended(t *testing.T) {
	t.Parallel()
	v := validator(t, "gputasks")
	const rule = `"failureRules": [{"action": "FailTask", "onExitCodes": {"containerName": "trainer", "operator": "In", "values": [1]}}]`
	const template = `"template": {"spec": {"containers": [{"name": "main"}]}}`
	for name, spec := range map[string]string{
		"an index that no Pod has":           `{"replicas": 2, "successPolicy": {"rules": [{"succeededIndexes": "5"}]}}`,
		"a range that decreases":             `{"replicas": 4, "successPolicy": {"rules": [{"succeededIndexes": "3-1"}]}}`,
		"more than are listed":               `{"replicas": 4, "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 3}]}}`,
		"more than there are":                `{"replicas": 2, "successPolicy": {"rules": [{"succeededCount": 3}]}}`,
		"more failed indexes than there are": `{"completions": 2, "backoffLimitPerIndex": 1, "maxFailedIndexes": 3}`,
		"an unknown container":               `{` + rule + `, ` + template + `}`,
		"an unknown container of a role":     `{` + template + `, "roles": [{"name": "a", ` + rule + `}]}`,
		"no type of a condition":             `{"failureRules": [{"action": "Ignore", "onPodConditions": [{"type": "Not Ready"}]}]}`,
		"exit code 0":                        `{"failureRules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [0]}}]}`,
	} {
		if err := v.Create(taskOf(t, spec)); err == nil {
			t.Errorf("%s: accepted", name)
		}
		stored, suspended := taskOf(t, spec), taskOf(t, spec)
		_, _ = v.Create(stored), v.Create(suspended)         // fills in the defaults
		suspended["spec"].(map[string]any)["suspend"] = true //nolint:forcetypeassert // it is a map
		if err := v.Update(stored, suspended); err != nil {
			t.Errorf("%s: a task that is stored already can't be suspended: %v", name, err)
		}
	}
}

// Programs write "creationTimestamp: null" into templates, and others, which know that field, leave it out: the task is
// the same.
func TestANullInATemplateIsNotStored(t *testing.T) {
	t.Parallel()
	task := taskOf(t, `{"template": {"metadata": {"creationTimestamp": null}, "spec": {"containers": [{"name": "main", "args": null}]}}}`)
	if err := validator(t, "gputasks").Create(task); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "null") {
		t.Errorf("the task is stored as %s", text)
	}
}
