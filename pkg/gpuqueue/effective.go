// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpumodel"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Supply is the GPUs that a cluster has, by model; those of AnyModel are all of them.
type Supply map[string]queueing.Amount

// NewSupply returns what the given Nodes have, whether it can be used now or not.
func NewSupply(nodes []*corev1.Node) Supply {
	supply := Supply{}
	for _, node := range nodes {
		gpus := queueing.Amount(snapshot.InstalledGPUs(node)) * queueing.GPU
		supply[queueing.AnyModel] += gpus
		if model := snapshot.Model(node); model != "" {
			supply[model] += gpus
		}
	}
	return supply
}

// models returns the models that nodes have, sorted.
func (s Supply) models() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s)), func(model string) bool { return model == queueing.AnyModel })
}

const (
	// shownModels is how many models of the cluster a condition names.
	shownModels = 8
	// shownProblems is how many problems of a queue a condition names.
	shownProblems = 4
)

// effective returns the condition Effective of a queue. Its reason is that of the first problem, the message names
// several.
func (r *Report) effective(queue *v1.GPUQueue) metav1.Condition {
	condition := metav1.Condition{
		Type: v1.ConditionQueueEffective, Status: metav1.ConditionTrue, Reason: v1.ReasonQueueEffective,
		Message: "all parts of the spec take effect", ObservedGeneration: queue.Generation, LastTransitionTime: metav1.NewTime(r.Now),
	}
	var messages []string
	add := func(reason string, problems []string) {
		if len(messages) == 0 && len(problems) > 0 {
			condition.Status, condition.Reason = metav1.ConditionFalse, reason
		}
		messages = append(messages, problems...)
	}
	add(v1.ReasonUnknownModel, r.unknownModels(queue))
	add(v1.ReasonGuaranteeExceedsCluster, r.excessGuarantees(queue.Name))
	if excess := r.View.neverFits[queue.Name]; excess != nil {
		add(v1.ReasonLimitBelowPod, []string{fmt.Sprintf(
			"the limit of %s is below the request of a single waiting Pod, which is %s: see kubectl gputask queue describe %s",
			queueing.CountModel(excess.Limit, excess.Model), excess.Wanted, queue.Name)})
	}
	if more := len(messages) - shownProblems; more > 0 {
		messages = append(messages[:shownProblems], fmt.Sprintf("and %d more", more))
	}
	if len(messages) > 0 {
		condition.Message = strings.Join(messages, "; ")
	}
	return condition
}

// unknownModels names the models of a queue's spec that no node has.
func (r *Report) unknownModels(queue *v1.GPUQueue) []string {
	var problems []string
	for i := range queue.Spec.Resources {
		model := queue.Spec.Resources[i].GPU
		if _, known := r.Supply[model]; known || model == v1.AnyGPU {
			continue
		}
		problem, models := "no node has "+model, r.Supply.models()
		switch nearest := gpumodel.Nearest(model, models); {
		case nearest != "":
			problem += fmt.Sprintf(" (did you mean %s?)", nearest)
		case len(models) > shownModels:
			problem += fmt.Sprintf(" (they have %s and %d other models)", strings.Join(models[:shownModels], ", "), len(models)-shownModels)
		case len(models) > 0:
			problem += fmt.Sprintf(" (they have %s)", strings.Join(models, ", "))
		}
		problems = append(problems, problem)
	}
	return problems
}

// excessGuarantees names what is guaranteed to a queue, or to it and all others without a parent together, beyond what
// the cluster has. What is guaranteed to a child is a part of what is guaranteed to its parent.
func (r *Report) excessGuarantees(queue string) []string {
	var problems []string
	for _, model := range append(r.Supply.models(), queueing.AnyModel) {
		own := r.Tree.Guaranteed(queue, model)
		if own <= 0 || model == queueing.AnyModel && len(problems) > 0 { // those of a model are among them
			continue
		}
		together, supply := r.guaranteedToRoots(model), r.Supply[model]
		switch {
		case own > supply:
			problems = append(problems, fmt.Sprintf("%s guaranteed, but the cluster has %s", queueing.CountModel(own, model), supply))
		case together > supply && len(r.Tree.Path(queue)) == 1:
			problems = append(problems, fmt.Sprintf("%s guaranteed to this queue and all others without a parent, but the cluster has %s",
				queueing.CountModel(together, model), supply))
		}
	}
	return problems
}

// guaranteedToRoots returns what is guaranteed to all queues without a parent.
func (r *Report) guaranteedToRoots(model string) queueing.Amount {
	sum := queueing.Amount(0)
	for _, queue := range r.Tree.Queues() {
		if len(r.Tree.Path(queue)) == 1 {
			sum += r.Tree.Guaranteed(queue, model)
		}
	}
	return sum
}

// NewProblems returns the conditions of a status that are False, and were not for the same reason and the same spec
// before.
func NewProblems(before, after *v1.GPUQueueStatus) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(after.Conditions), func(condition metav1.Condition) bool {
		known := meta.FindStatusCondition(before.Conditions, condition.Type)
		return condition.Status != metav1.ConditionFalse || known != nil && known.Status == condition.Status &&
			known.Reason == condition.Reason && known.ObservedGeneration == condition.ObservedGeneration
	})
}
