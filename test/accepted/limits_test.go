// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accepted_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// limited returns the template of a container with these limits.
func limited(limits string) string {
	return fmt.Sprintf(`"template": {"spec": {"containers": [{"name": "main", "resources": {"limits": {%s}}}]}}`, limits)
}

func TestLimitsOfTheTemplateDoNotContradictTheTask(t *testing.T) {
	t.Parallel()
	v := validator(t, "gputasks")
	const gpus, cpu, memory = "contradicts gpu-amount, which says how many GPUs each Pod gets (1 if it is left out)", "the limit of cpu contradicts the task's cpu", "the limit of memory contradicts the task's memory"
	for _, test := range []struct{ spec, want string }{
		{limited(`"nvidia.com/gpu": 2`), "spec.template.spec.containers: Invalid value: " + gpus},
		{limited(`"falldio.com/gpu": "2"`), gpus},
		{limited(`"nvidia.com/gpu": 1`), ""},
		{limited(`"falldio.com/gpu": "1"`), ""},
		{`"gpu-amount": 2, ` + limited(`"nvidia.com/gpu": 2`), ""},
		{`"gpu-amount": "2", ` + limited(`"nvidia.com/gpu": 2`), ""},
		{`"gpu-amount": 2, ` + limited(`"nvidia.com/gpu": "2"`), ""},
		{`"gpu-amount": "0.5", ` + limited(`"nvidia.com/gpu": 1`), gpus},
		{`"gpuProfile": "1g.10gb", ` + limited(`"falldio.com/gpu": 1`), gpus},
		{`"cpu": 8, ` + limited(`"cpu": 4`), "spec.template.spec.containers: Invalid value: " + cpu},
		{`"cpu": 8, ` + limited(`"cpu": 8`), ""},
		{`"cpu": 8, ` + limited(`"cpu": "8000m"`), ""},
		{`"cpu": "500m", ` + limited(`"cpu": "0.5"`), ""},
		{limited(`"cpu": 4, "memory": "1Gi"`), ""},
		{`"memory": "1Gi", ` + limited(`"memory": "1024Mi"`), ""},
		{`"memory": "1Gi", ` + limited(`"memory": "1G"`), memory},
		{`"memory": 1073741824, ` + limited(`"memory": "1Gi"`), ""},
		{`"cpu": 8, "template": {"spec": {"containers": [{"name": "log", "resources": {"limits": {"cpu": 1, "nvidia.com/gpu": 4}}}, {"name": "gpu-task"}]}}`, ""},
		{`"cpu": 8, "template": {"spec": {"containers": [{"name": "log"}, {"name": "gpu-task", "resources": {"limits": {"cpu": 1}}}]}}`, cpu},
		{`"roles": [{"name": "a", "gpu-amount": 2, ` + limited(`"nvidia.com/gpu": 2`) + `}]`, ""},
		{`"roles": [{"name": "a", "gpu-amount": 2, ` + limited(`"nvidia.com/gpu": 4`) + `}]`, "spec.roles: Invalid value: " + gpus},
		{`"gpu-amount": 4, "roles": [{"name": "launcher", "gpu-amount": 0}, {"name": "worker"}], ` + limited(`"nvidia.com/gpu": 4`), ""},
		{`"gpu-amount": 4, "roles": [{"name": "worker", "gpu-amount": 2}], ` + limited(`"nvidia.com/gpu": 4`), gpus},
		{`"roles": [{"name": "a", "cpu": 2}], ` + limited(`"cpu": 4`), "spec.roles: Invalid value: " + cpu},
		{`"cpu": 4, "roles": [{"name": "a"}], ` + limited(`"cpu": 4`), ""},
	} {
		err := v.Create(taskOf(t, "{"+test.spec+"}"))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.spec, err, test.want)
		}
	}
}

// A task that was stored before there was this rule can still be suspended and resumed.
func TestATaskWithAContradictionThatIsStoredCanBeChanged(t *testing.T) {
	t.Parallel()
	v := validator(t, "gputasks")
	stored := func(spec string) map[string]any {
		object := taskOf(t, `{"gpu-amount": "1"}`)
		if err := v.Create(object); err != nil {
			t.Fatal(err)
		}
		maps.Copy(object["spec"].(map[string]any), taskOf(t, "{"+spec+"}")["spec"].(map[string]any))
		return object
	}
	for _, spec := range []string{limited(`"nvidia.com/gpu": 2`), `"roles": [{"name": "a", "cpu": "2", "replicas": 1, ` + limited(`"cpu": 4`) + `}]`} {
		before, after := stored(spec), stored(spec+`, "suspend": true`)
		if err := v.Update(before, after); err != nil {
			t.Errorf("%s can't be suspended: %v", spec, err)
		}
		if err := v.Update(after, before); err != nil {
			t.Errorf("%s can't be resumed: %v", spec, err)
		}
	}
	before, after := stored(`"suspend": true, `+limited(`"nvidia.com/gpu": 2`)), stored(`"suspend": true, `+limited(`"nvidia.com/gpu": 3`))
	if err := v.Update(before, after); err == nil || !strings.Contains(err.Error(), "contradicts gpu-amount") {
		t.Errorf("another contradiction is accepted: %v", err)
	}
}
