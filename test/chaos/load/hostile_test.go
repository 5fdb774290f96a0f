// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"strings"
	"testing"
)

func TestAHostileTenantTriesEverythingAndLeavesNothing(t *testing.T) {
	t.Parallel()
	begun, attempts := map[string]bool{}, map[string]int{}
	for _, step := range Steps(someOptions(7)) {
		switch step.Verb {
		case VerbAttack:
			if begun[step.Name] {
				t.Errorf("%s is created twice", step.Name)
			}
			if step.Namespace != "mallory" || (step.Task == nil) == (step.Pod == nil) {
				t.Errorf("%s is by task %v and Pod %v", &step, step.Task, step.Pod)
			}
			begun[step.Name] = true
			attempts[step.Name[:strings.LastIndex(step.Name, "-")]]++
		case VerbEndAttack:
			if !begun[step.Name] {
				t.Errorf("%s ends before it begins", step.Name)
			}
			delete(begun, step.Name)
		}
	}
	if len(begun) > 0 {
		t.Errorf("left behind: %v", begun)
	}
	for _, one := range attacks() {
		if attempts[one.name] == 0 {
			t.Errorf("no attack of ten minutes %s", one.name)
		}
	}
}
