// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/remediation"
)

// After an upgrade the CRDs or the RBAC rules may still be those of the version before.
// Tasks must be handled all the same.
func TestTheControllerWorksWhereMovePlansAreNotServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(opts *options) { opts.rescheduling.Period = time.Minute })
	f.fake.PrependReactor("list", "moveplans", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Group: v1.GroupName, Resource: "moveplans"}, "")
	})
	if !f.process.startInformers(t.Context(), 10*time.Millisecond) || !f.process.ready.Load() {
		t.Fatal("the controller does not begin")
	}
	task := f.store(newTask("train", 1))
	f.mustSync(task)
	if got := f.podNames(); !slices.Equal(got, []string{"train-0"}) && !slices.Equal(got, []string{"train"}) {
		t.Errorf("Pods %v", got)
	}
}

// A standby would need the memory for all Pods of the cluster without using them.
func TestAStandbyCachesTasksWithTheirPodsAndServicesOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(opts *options) { opts.rescheduling.Period, opts.remediation.Effect = time.Minute, "NoSchedule" })
	if !f.process.startInformers(t.Context(), time.Minute) {
		t.Fatal("the caches are not filled")
	}
	for _, action := range f.kube.Actions() {
		resource := action.GetResource().Resource
		list, isList := action.(clienttesting.ListAction)
		if resource != "pods" && resource != "services" || isList && list.GetListRestrictions().Labels.String() != "falldio.com/gputask" {
			t.Errorf("%s %s", action.GetVerb(), resource)
		}
	}
}

// Kubelets report so often that each watch of all Nodes costs CPU time in a cluster in which nothing happens.
// Each cache of all Pods costs their memory.
func TestThePartsOfTheLeaderShareOneWatchOfNodesAndOneOfOthersPods(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(opts *options) { opts.rescheduling.Period, opts.remediation.Effect = time.Minute, "NoSchedule" })
	if !f.process.startInformers(t.Context(), time.Minute) {
		t.Fatal("the caches are not filled")
	}
	f.process.gpuPods.Want()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var working sync.WaitGroup
	working.Go(func() { f.process.work(ctx) })
	defer working.Wait()
	defer cancel()
	watches := func(resource string) (count int) {
		for _, action := range f.kube.Actions() {
			if action.Matches("watch", resource) {
				count++
			}
		}
		return count
	}
	for !f.process.gpuPods.HasSynced() || watches("poddisruptionbudgets") == 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the caches of the leader are not filled")
		}
	}
	if nodes, pods := watches("nodes"), watches("pods"); nodes != 1 || pods != 2 {
		t.Errorf("%d watches of Nodes and %d of Pods, want 1, and 2: of tasks and of others", nodes, pods)
	}
}

// Those of two namespaces would undo each other's taints.
func TestAControllerOfOneNamespaceLeavesNodesAlone(t *testing.T) {
	t.Parallel()
	for namespace, want := range map[string]bool{"": true, "team-a": false} {
		f := newFixture(t, func(opts *options) { opts.namespace = namespace })
		if got := slices.ContainsFunc(f.process.parts, func(p part) bool { _, taints := p.(*remediation.Remediator); return taints }); got != want {
			t.Errorf("namespace %q: it changes the taints of Nodes: %v", namespace, got)
		}
	}
}

// recordedRescheduling records the calls of the controller.
type recordedRescheduling struct {
	steered atomic.Int32
	changes int
	// moving is the task that is being moved.
	moving types.UID
}

func (r *recordedRescheduling) Steer(*corev1.Pod) error { r.steered.Add(1); return nil }

func (r *recordedRescheduling) Moves(task types.UID) bool { return task == r.moving }

func (r *recordedRescheduling) Changed() { r.changes++ }

func TestTheReschedulerHearsOfChangesAndSteersNewPods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	recorded := &recordedRescheduling{}
	f.rescheduling = recorded
	task := f.store(newTask("train", 2))
	f.mustSync(task)
	if got := recorded.steered.Load(); got != 2 {
		t.Errorf("%d Pods were steered, want 2", got)
	}
	f.taskChanged(task, task)
	f.podChanged(f.podOf(task))
	f.taskDeleted(t.Context(), task)
	if recorded.changes != 3 {
		t.Errorf("%d changes were passed on, want 3", recorded.changes)
	}
}

func TestAPodThatIsMovedIsNotReportedAsLost(t *testing.T) {
	t.Parallel()
	for name, moving := range map[string]types.UID{"moved": "uid-of-task", "lost": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.rescheduling = &recordedRescheduling{moving: moving}
			task := newTask("train", 1)
			f.store(task)
			task.Status.Phase = v1.PhaseRunning
			after := task.Status.DeepCopy()
			after.Phase = v1.PhasePending
			f.statuses.reportChange(t.Context(), task, after)
			if reported := len(f.events.Events) > 0; reported != (moving == "") {
				t.Errorf("reported as lost: %v", reported)
			}
		})
	}
}
