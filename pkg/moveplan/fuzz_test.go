// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzStep carries out any stored plan, which users may write and change, in a cluster with tasks that run. Whatever
// it says, there is a decision or an error, the same one each time; it is a new status or actions, never both; only
// Pods are evicted that an approved plan moves by their UIDs; and what is reserved is on nodes that exist.
func FuzzStep(f *testing.F) {
	for _, change := range [][]func(*model){
		{unapproved}, {at(v1.PlanApproved, waiting, waiting, waiting)}, {at(v1.PlanExecuting, waiting, waiting, waiting)},
		{at(v1.PlanExecuting, evicted, evicted, waiting)}, {at(v1.PlanExecuting, moved, moved, evicted)}, {at(v1.PlanExecuting, evicted, skipped, skipped), stopping},
		{forCapacity, at(v1.PlanExecuting, evicted, evicted, waiting)}, {recreating, at(v1.PlanApproved, waiting, waiting, waiting)}, {at(v1.PlanDone, moved, moved, moved)},
	} {
		m := newModel(f, 1)
		m.documents()
		for _, do := range change {
			do(m)
		}
		text, err := json.Marshal(m.plan)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte(nil), true)
		f.Add(text, []byte{0, 40, 3, 0, 7, 0, 60, 9, 0, 20}, false)
	}
	f.Add([]byte(`{"metadata":{"name":"plan"},"spec":{"approved":true,"goal":"Capacity","moves":[{"turn":-2147483648,"task":{"name":"gang"}},null]},"status":{"phase":"Executing","moves":[{},{}]}}`), []byte(nil), true)
	f.Fuzz(func(t *testing.T, text, edits []byte, reserved bool) {
		text = fuzzjson.Edit(text, edits)
		plan := &v1.MovePlan{}
		if json.Unmarshal(text, plan) != nil {
			return
		}
		m := newModel(t, 1)
		m.documents()
		if reserved {
			m.reserve()
		}
		m.plan = plan
		in := m.input()
		in.Objects.Now, in.Tries, in.Drift = m.now, m.tries, &Drift{}
		limits := fuzzlimit.Limits{Bytes: 64 << 20, PerByte: 32 << 10, CPU: 10 * time.Second}
		fuzzlimit.Check(t, limits, len(text), func() { checkStep(t, in) })
	})
}

func checkStep(t *testing.T, in *Input) {
	t.Helper()
	before := in.Plan.DeepCopy()
	out, err := Step(*in)
	again, errAgain := Step(*in)
	if (err == nil) != (errAgain == nil) || !cmp.Equal(out, again) {
		t.Errorf("two steps differ: %v, %v\n%s", err, errAgain, cmp.Diff(out, again))
	}
	if diff := cmp.Diff(before, in.Plan); diff != "" {
		t.Errorf("the plan was changed (-before +after):\n%s", diff)
	}
	if out.Status != nil && len(out.Evict)+len(out.AskForCheckpoint) > 0 {
		t.Errorf("a new status, and Pods to evict or to ask for a checkpoint: %+v", out)
	}
	if out.RequeueAfter < 0 {
		t.Errorf("the next step is due in %v", out.RequeueAfter)
	}
	moves := map[string]bool{}
	for i := range in.Plan.Spec.Moves {
		moves[string(in.Plan.Spec.Moves[i].PodUID)] = true
	}
	for _, pod := range out.Evict {
		if in.Plan.Status.Phase != v1.PlanExecuting || !moves[string(pod.UID)] {
			t.Errorf("Pod %s is evicted by a plan in phase %q, which moves Pods %v", pod.Name, in.Plan.Status.Phase, moves)
		}
	}
	nodes := map[string]bool{}
	for _, node := range in.Objects.Nodes {
		nodes[node.Name] = true
	}
	changes, err := Reservations(in.Objects, "", moveTimeout)
	if err != nil {
		return // a reservation that can't be written is reported
	}
	for i := range changes {
		if !nodes[changes[i].Node.Name] {
			t.Errorf("a place is reserved on node %s, which does not exist", changes[i].Node.Name)
		}
	}
}
