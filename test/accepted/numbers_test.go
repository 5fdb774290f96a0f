// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accepted_test

import (
	"strings"
	"testing"
)

func TestAmountsMayBeNumbers(t *testing.T) {
	t.Parallel()
	v := validator(t, "gputasks")
	for _, test := range []struct{ spec, want string }{
		{`{"gpu-amount": 8, "cpu": 8, "memory": 17179869184, "gpuMemory": 42949672960}`, ""},
		{`{"gpu-amount": 1, "roles": [{"name": "a", "gpu-amount": 0, "cpu": 1, "memory": 4194304, "gpuMemory": 268435456}]}`, ""},
		{`{"gpu-amount": 2, "gpuProfile": "1g.10gb", "roles": [{"name": "a", "gpu-amount": 3}, {"name": "b"}]}`, ""},
		{`{"gpu-amount": 0}`, `spec.gpu-amount: Invalid value: 0: must be a whole number of GPUs`},
		{`{"gpu-amount": 10000}`, `spec.gpu-amount: Invalid value: 10000: must be a whole number of GPUs`},
		{`{"gpu-amount": -1}`, `spec.gpu-amount: Invalid value: -1: must be a whole number of GPUs`},
		{`{"gpu-amount": 0.5}`, `spec.gpu-amount`},
		{`{"gpu-amount": true}`, `spec.gpu-amount`},
		{`{"cpu": 0}`, `spec.cpu: Invalid value: 0: must be a quantity of CPU cores`},
		{`{"cpu": 100001}`, `spec.cpu: Invalid value: 100001: must be a quantity of CPU cores`},
		{`{"memory": 16}`, `spec.memory: Invalid value: 16: must be a quantity from 4Mi to 1Pi with its unit`},
		{`{"gpuMemory": 80}`, `spec.gpuMemory: Invalid value: 80: must be a quantity from 256Mi to 16Ti with its unit`},
		{`{"gpuMemory": 40000000000, "gpuProfile": "1g.10gb"}`, `must be left out with gpuProfile`},
		{`{"roles": [{"name": "a", "gpu-amount": -1}]}`, `spec.roles[0].gpu-amount: Invalid value: -1: must be a whole number of GPUs`},
		{`{"roles": [{"name": "a", "cpu": 0}]}`, `spec.roles[0].cpu: Invalid value: 0: must be a quantity of CPU cores`},
	} {
		err := v.Create(taskOf(t, test.spec))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.spec, err, test.want)
		}
	}
}

// Whoever applies a file again in which amounts were text changes nothing.
func TestANumberIsTheSameAmountAsItsText(t *testing.T) {
	t.Parallel()
	v := validator(t, "gputasks")
	const text = `{"gpu-amount": "8", "cpu": "4", "memory": "17179869184", "gpuMemory": "40000000000", "roles": [{"name": "a", "gpu-amount": "2", "cpu": "1", "memory": "4194304", "gpuMemory": "40000000000"}]}`
	numbers := strings.NewReplacer(`"8"`, "8", `"4"`, "4", `"17179869184"`, "17179869184", `"40000000000"`, "40000000000", `"2"`, "2", `"1"`, "1", `"4194304"`, "4194304").Replace(text)
	// The templates of roles are compared together with the roles, unless the task is suspended.
	for _, spec := range []struct{ before, after string }{
		{text, numbers}, {numbers, text}, {numbers, numbers},
	} {
		before, after := taskOf(t, suspended(spec.before)), taskOf(t, suspended(spec.after))
		for _, object := range []map[string]any{before, after} {
			if err := v.Create(object); err != nil {
				t.Fatal(err)
			}
		}
		if err := v.Update(before, after); err != nil {
			t.Errorf("from %s to %s: %v", spec.before, spec.after, err)
		}
	}
	for _, changed := range []string{`{"gpu-amount": 9}`, `{"gpu-amount": "9"}`, `{"gpu-amount": 8, "cpu": 5}`} {
		before, after := taskOf(t, `{"gpu-amount": 8}`), taskOf(t, changed)
		if err := v.Create(before); err != nil {
			t.Fatal(err)
		}
		if err := v.Create(after); err != nil {
			t.Fatal(err)
		}
		if err := v.Update(before, after); err == nil || !strings.Contains(err.Error(), "is immutable") {
			t.Errorf("from 8 to %s: %v, want that it is immutable", changed, err)
		}
	}
}

func suspended(spec string) string { return strings.Replace(spec, "{", `{"suspend": true, `, 1) }
