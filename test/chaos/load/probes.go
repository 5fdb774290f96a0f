// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/chaos/check"
)

// VerbClose has the node of probes take no Pods, and VerbOpen take them again, each in one of the ways of closings.
const (
	VerbClose = "close"
	VerbOpen  = "open"
)

// Probe is where probes run: tasks that wait for a node to be opened. Nothing else happens on it.
type Probe struct {
	Namespace, Node, Model string
	GPUs                   int
}

const (
	// probeEvery is the time between two probes under load, and openAfter that for which the node of one is closed:
	// long enough for the scheduler to have tried it in vain.
	probeEvery = 30 * time.Second
	openAfter  = 3 * time.Second
	// openPause is the time between two changes that open a node only together: long enough for the scheduler to try
	// after the first.
	openPause = time.Second
)

// closing is a way to keep Pods away from a node, as patches of the node or of its status. If several are needed to
// open it, they come one after the other.
type closing struct {
	name, close string
	open        []string
	// status is true if the patches are of the node's status.
	status bool
}

func closings(probe *Probe) []closing {
	gpus := func(count int) string {
		return fmt.Sprintf(`{"status": {"capacity": {"%s": "%d"}, "allocatable": {"%s": "%d"}}}`, v1.ResourceGPU, count, v1.ResourceGPU, count)
	}
	label := func(value string) string {
		return fmt.Sprintf(`{"metadata": {"labels": {%q: %s}}}`, check.LabelProbe, value)
	}
	const (
		cordon, uncordon = `{"spec": {"unschedulable": true}}`, `{"spec": {"unschedulable": null}}`
		both             = `{"spec": {"unschedulable": true, "taints": [{"key": "example.com/maintenance", "effect": "NoSchedule"}]}}`
		taint, untaint   = `{"spec": {"taints": [{"key": "example.com/maintenance", "effect": "NoSchedule"}]}}`, `{"spec": {"taints": null}}`
	)
	return []closing{
		{name: "cordon", close: cordon, open: []string{uncordon}},
		{name: "taint", close: taint, open: []string{untaint}},
		{name: "maintenance", close: both, open: []string{uncordon, untaint}},
		{name: "label", close: label("null"), open: []string{label(`"true"`)}},
		{name: "cordon", close: cordon, open: []string{uncordon}},
		{name: "devices", close: gpus(0), open: []string{gpus(probe.GPUs)}, status: true},
		{name: "maintenance", close: both, open: []string{uncordon, untaint}},
	}
}

// ProbeInQuiet returns the steps of one probe after the other, for a cluster in which nothing else happens. The last
// step of each opens the node; the next one must not begin before the task has ended.
func ProbeInQuiet(probe *Probe) [][]Step {
	rounds := make([][]Step, 0, len(closings(probe)))
	for number := range closings(probe) {
		rounds = append(rounds, round(probe, "quiet", number, 0))
	}
	return rounds
}

// probes returns the steps of all probes under load.
func probes(options *Options) []Step {
	if options.Probe.Node == "" {
		return nil
	}
	var steps []Step
	for number, at := 0, 5*time.Second; at+openAfter+openPause < options.Duration; number, at = number+1, at+probeEvery {
		steps = append(steps, round(&options.Probe, "busy", number, at)...)
	}
	return steps
}

// round returns the steps of a probe that begins at a time: the node is closed, a task is created that fits nowhere
// else, and the node is opened again.
func round(probe *Probe, when string, number int, at time.Duration) []Step {
	all := closings(probe)
	way := all[number%len(all)]
	task := probeTask(probe, fmt.Sprintf("%s-%s-%d", when, way.name, number), number%2 == 1)
	node := func(at time.Duration, verb, patch string) Step {
		return Step{At: at, Verb: verb, Name: probe.Node, Patch: patch, OfStatus: way.status}
	}
	steps := []Step{
		node(at, VerbClose, way.close),
		{At: at + openAfter/3, Verb: VerbCreate, Namespace: task.Namespace, Name: task.Name, Task: task},
	}
	for i, patch := range way.open {
		steps = append(steps, node(at+openAfter+time.Duration(i)*openPause, VerbOpen, patch))
	}
	return steps
}

// probeTask needs all of the node: as a single Pod, or as a gang of two.
func probeTask(probe *Probe, name string, gang bool) *v1.GPUTask {
	label := map[string]string{check.LabelProbe: "true", labelKind: "probe"}
	task := &v1.GPUTask{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "GPUTask"},
		ObjectMeta: metav1.ObjectMeta{Namespace: probe.Namespace, Name: name, Labels: label},
		Spec: v1.GPUTaskSpec{
			GPU: probe.Model, GPUAmount: fmt.Sprint(probe.GPUs), CPU: "1", Priority: "gpu-medium-priority",
			Template: &corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: label, Annotations: map[string]string{annotationDuration: "2s"}},
				Spec:       corev1.PodSpec{NodeSelector: map[string]string{check.LabelProbe: "true"}},
			},
		},
	}
	if gang {
		task.Spec.Replicas, task.Spec.GPUAmount = new(int32(2)), fmt.Sprint(probe.GPUs/2)
	}
	return task
}
