// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// assigned writes what the node agent does.
func (b podBuilder) assigned(value string) podBuilder {
	return b.with(func(p *corev1.Pod) { p.Annotations = map[string]string{inventory.AssignmentAnnotation: value} })
}

func TestATaskSaysThatItsShareIsNotEnforced(t *testing.T) {
	t.Parallel()
	const (
		head      = `{"version":"v1","containers":{"gpu-task":{"falldio.com/gpu-percent":["GPU-a"]}}`
		unlimited = head + `,"enforcement":{"gpu-task":"none"}}`
		limited   = head + `,"enforcement":{"gpu-task":"mps"}}`
	)
	share := func(b taskBuilder) taskBuilder { return b.with(func(t *v1.GPUTask) { t.Spec.GPUAmount = "0.5" }) }
	one, gang := share(makeTask("serve")), share(makeTask("serve").replicas(3).minAvailable(2))
	running := func(index int, annotation string) podBuilder {
		return gang.pod(index, 0).running("a").assigned(annotation)
	}
	tests := map[string]struct {
		task taskBuilder
		pods []podBuilder
		want string
	}{
		"nothing limits it":                   {one, []podBuilder{one.pod(0, 0).running("a").assigned(unlimited)}, "running on a; nothing limits it to its share of the GPU"},
		"MPS limits it":                       {one, []podBuilder{one.pod(0, 0).running("a").assigned(limited)}, "running on a"},
		"nobody knows":                        {one, []podBuilder{one.pod(0, 0).running("a").assigned(head + "}")}, "running on a"},
		"the scheduler has assigned nothing":  {one, []podBuilder{one.pod(0, 0).running("a")}, "running on a"},
		"what can't be read is not reported":  {one, []podBuilder{one.pod(0, 0).running("a").assigned(`{"version":"v2"}`)}, "running on a"},
		"a helper counts as well":             {one, []podBuilder{one.pod(0, 0).running("a").assigned(head + `,"enforcement":{"gpu-task":"mps","helper":"none"}}`)}, "running on a; nothing limits it to its share of the GPU"},
		"nothing limits any Pod":              {gang, []podBuilder{running(0, unlimited), running(1, unlimited), running(2, unlimited)}, "running on a; nothing limits its Pods to their shares of GPUs"},
		"nothing limits some Pods":            {gang, []podBuilder{running(0, unlimited), running(1, limited), running(2, limited)}, "running on a; nothing limits 1 of its Pods to their shares of GPUs"},
		"a Pod that has ended does not count": {gang, []podBuilder{gang.pod(0, 0).succeeded().assigned(unlimited), running(1, limited), running(2, limited)}, "running on a, node-1"},
		"some Pods run": {
			gang, []podBuilder{running(0, unlimited), running(1, unlimited), gang.pod(2, 0)},
			"running on a; nothing limits its Pods to their shares of GPUs; 1 of 3 Pods waits to start",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := Decide(input(test.task, pods(test.pods...)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, plan.Status.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}
