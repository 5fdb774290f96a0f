// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admissioncheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"falldio.github.io/gpu-controller/pkg/gpufit"
	"falldio.github.io/gpu-controller/pkg/kueue"
)

// activate tells Kueue that somebody answers our AdmissionChecks, and returns their names.
func (c *Check) activate(ctx context.Context) (sets.Set[string], error) {
	ours := sets.New[string]()
	var errs []error
	for _, object := range c.api.List(kueue.AdmissionChecks) {
		check, err := kueue.Read[kueue.AdmissionCheck](object)
		if err != nil || check.Spec.ControllerName != ControllerName {
			errs = append(errs, err)
			continue
		}
		ours.Insert(check.Name)
		conditions := slices.Clone(check.Status.Conditions)
		changed := meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: kueue.Active, Status: metav1.ConditionTrue, Reason: kueue.Active, Message: "gpu-controller answers it",
			ObservedGeneration: check.Generation, LastTransitionTime: metav1.NewTime(c.deps.Clock.Now()).Rfc3339Copy(),
		})
		if changed {
			errs = append(errs, c.patch(ctx, kueue.AdmissionChecks, check, map[string]any{"conditions": conditions}))
		}
	}
	return ours, errors.Join(errs...)
}

// asking is a Workload and the check that it asks.
type asking struct {
	*kueue.Workload
	check string
}

// answer answers all Workloads that ask one of the checks.
func (c *Check) answer(ctx context.Context, checks sets.Set[string]) error {
	asking, arriving, err := c.workloads(checks)
	c.waiting.Store(len(asking) > 0 || len(arriving) > 0)
	maps.DeleteFunc(c.said, func(_ types.UID, at time.Time) bool { return c.deps.Clock.Since(at) >= messagePause })
	if err != nil || len(asking) == 0 {
		return err
	}
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	workloads := make([]*kueue.Workload, len(asking))
	for i := range asking {
		workloads[i] = asking[i].Workload
	}
	answers := gpufit.Answers(cluster, kueue.FlavorsIn(c.api), arriving, workloads)
	var errs []error
	for i := range asking {
		errs = append(errs, c.say(ctx, asking[i], answers[i]))
	}
	return errors.Join(errs...)
}

// workloads returns the Workloads that ask one of the checks, in the order in which they are
// answered, and those that were told that they fit and whose Pods are still to come.
func (c *Check) workloads(checks sets.Set[string]) (asks []asking, arriving []*kueue.Workload, err error) {
	var errs []error
	for _, object := range c.api.List(kueue.Workloads) {
		name := checkOf(object, checks)
		if name == "" {
			continue
		}
		workload, err := kueue.Read[kueue.Workload](object)
		switch {
		case err != nil:
			errs = append(errs, err)
		case workload.Asks(name):
			asks = append(asks, asking{workload, name})
		case workload.Arrives(name) && c.deps.Clock.Since(workload.Check(name).LastTransitionTime.Time) < arrival:
			arriving = append(arriving, workload)
		}
	}
	slices.SortFunc(asks, func(a, b asking) int { return compare(a.Workload, b.Workload) })
	slices.SortFunc(arriving, compare)
	return asks, arriving, errors.Join(errs...)
}

// compare orders Workloads as Kueue does: by priority, then by age, here that of their quota.
func compare(a, b *kueue.Workload) int {
	return cmp.Or(-cmp.Compare(ptr.Deref(a.Spec.Priority, 0), ptr.Deref(b.Spec.Priority, 0)), a.ReservedAt().Compare(b.ReservedAt()),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// checkOf returns which of the checks a Workload has; empty for none. It looks into the object as it
// is: most Workloads of a cluster may have none.
func checkOf(object *unstructured.Unstructured, checks sets.Set[string]) string {
	states, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "admissionChecks")
	list, _ := states.([]any)
	for _, one := range list {
		if state, ok := one.(map[string]any); ok {
			if name, _ := state["name"].(string); checks.Has(name) {
				return name
			}
		}
	}
	return ""
}

// cluster returns what there is, from the caches.
func (c *Check) cluster() (gpufit.Cluster, error) {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return gpufit.Cluster{}, err
	}
	pods, err := c.deps.Pods.Running()
	if err != nil {
		return gpufit.Cluster{}, err
	}
	return gpufit.Cluster{Nodes: nodes, Pods: pods, Levels: c.options.Levels, Now: c.deps.Clock.Now()}, nil
}

// say writes an answer into the Workload's status, if it has changed.
func (c *Check) say(ctx context.Context, one asking, answer gpufit.Answer) error {
	verdict := gpufit.Verdict(one.Workload, one.check, answer, gpufit.Times{Patience: c.options.Patience, Retry: c.options.Retry}, c.deps.Clock.Now())
	before := one.Check(one.check)
	if equality.Semantic.DeepEqual(*before, verdict) || (before.State == verdict.State && c.saidLately(one.UID)) {
		return nil
	}
	c.said[one.UID] = c.deps.Clock.Now()
	if before.State != verdict.State {
		klog.FromContext(ctx).Info("Answering an admission check", "workload", klog.KObj(one.Workload), "check", one.check, "state", verdict.State, "message", verdict.Message)
	}
	checks := slices.Clone(one.Status.AdmissionChecks)
	for i := range checks {
		if checks[i].Name == one.check {
			checks[i] = verdict
		}
	}
	return c.patch(ctx, kueue.Workloads, one.Workload, map[string]any{"admissionChecks": checks})
}

// saidLately reports whether an answer to a Workload was written a moment ago: while Pods come and
// go, the explanation changes with each of them.
func (c *Check) saidLately(workload types.UID) bool {
	at, found := c.said[workload]
	return found && c.deps.Clock.Since(at) < messagePause
}

// patch changes the status of an object, if it is still of the version that was read.
func (c *Check) patch(ctx context.Context, resource string, object metav1.Object, status map[string]any) error {
	err := c.api.Patch(ctx, resource, cache.MetaObjectToName(object), map[string]any{
		"metadata": map[string]any{"resourceVersion": object.GetResourceVersion(), "uid": object.GetUID()}, "status": status,
	}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing %s %s: %w", resource, object.GetName(), err)
	}
	return nil
}
