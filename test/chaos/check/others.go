// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// InvariantOthers says that a Pod that is no task's is bound by the scheduler if it says so, and otherwise
// never changed, and never deleted, by any of the processes under test.
const InvariantOthers = "the Pods of others are left alone"

// others follows the Pods that are no task's. Nobody else has a reason to delete them in a campaign.
type others struct {
	// names are their namespaces and names.
	names map[string]bool
}

func newOthers() *others { return &others{names: map[string]bool{}} }

func (o *others) take(w *world, s *step) {
	switch {
	case s.pod != nil && s.pod.Labels[LabelForeign] != "":
		o.follow(w, s)
	case s.Request != nil:
		o.judge(w, s.Request)
	}
}

func (o *others) follow(w *world, s *step) {
	name := nameOf(s.pod)
	o.names[name] = true
	if w.leaving[s.pod.Namespace] {
		return
	}
	if s.gone || s.pod.DeletionTimestamp != nil {
		w.report(InvariantOthers, name, "the Pod was deleted: nobody but one of the processes under test can have done it")
	}
	if s.podBefore == nil {
		return
	}
	before, after := s.podBefore, s.pod
	switch {
	case !reflect.DeepEqual(before.Labels, after.Labels):
		w.report(InvariantOthers, name, "its labels have changed from %v to %v", before.Labels, after.Labels)
	case !reflect.DeepEqual(before.OwnerReferences, after.OwnerReferences):
		w.report(InvariantOthers, name, "its owners have changed")
	case !reflect.DeepEqual(foreignAnnotations(before), foreignAnnotations(after)):
		w.report(InvariantOthers, name, "its annotations have changed from %v to %v", before.Annotations, after.Annotations)
	case before.Spec.NodeName != "" && !reflect.DeepEqual(before.Spec, after.Spec):
		w.report(InvariantOthers, name, "its spec has changed since it was bound")
	}
}

// foreignAnnotations returns the annotations but those with which the scheduler binds a Pod (see
// docs/scheduling.md), and those of the simulation.
func foreignAnnotations(pod *corev1.Pod) map[string]string {
	left := map[string]string{}
	for key, value := range pod.Annotations {
		if !strings.HasPrefix(key, v1.GroupName+"/") && !strings.HasPrefix(key, "simulation."+v1.GroupName+"/") {
			left[key] = value
		}
	}
	return left
}

// judge reports writes of the controller and of the agents, even those that change nothing, and
// deletions by any of ours.
func (o *others) judge(w *world, r *history.Request) {
	name := r.Namespace + "/" + r.Name
	if !o.names[name] || !strings.HasPrefix(r.Resource, "pods") || r.Code >= failed {
		return
	}
	isOurs := r.User == UserController || r.User == UserAgent
	deletes := r.Verb == "delete" || r.Resource == "pods/eviction"
	if isOurs || deletes && slices.Contains([]string{UserController, UserAgent, UserScheduler}, r.User) {
		w.report(InvariantOthers, name, "%s has sent: %s %s", r.User, r.Verb, r.Resource)
	}
}

// failed is the least HTTP status of a request that has changed nothing.
const failed = 300
