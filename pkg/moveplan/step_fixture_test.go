// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// The plan of the tables moves a gang of two Pods in turn 0 (gang-0 from n0 to n1,
// gang-1 stays on n1) and a single Pod in turn 1 (from n0 to n1), so that a task of
// four GPUs gets n0. The index of the last move is single.
const single = 2

func seconds(n int) *metav1.Time {
	return &metav1.Time{Time: testTime.Add(time.Duration(n) * time.Second)}
}

// at makes the plan one that is in the given phase, with the states of its moves.
func at(phase v1.MovePlanPhase, states ...v1.MoveState) func(*model) {
	return func(m *model) {
		m.plan.Status = v1.MovePlanStatus{Phase: phase, Total: 3, Message: "as before"}
		for i, state := range states {
			record := v1.MoveStatus{State: state}
			if state == v1.MoveEvicted || state == v1.MoveMoved {
				record.EvictedAt, record.LostGPUSeconds = seconds(0), 10
			}
			if state == v1.MoveMoved {
				m.plan.Status.Moved++
				record.Node = m.plan.Spec.Moves[i].To.Node
			}
			m.plan.Status.Moves = append(m.plan.Status.Moves, record)
		}
		if phase == v1.PlanExecuting {
			m.plan.Status.StartTime, m.plan.Status.TurnTime = seconds(0), seconds(0)
		}
	}
}

func unapproved(m *model) { m.plan.Spec.Approved = false }
func abort(m *model)      { m.plan.Spec.Abort = true }
func placesKept(m *model) { m.reserve() }

// deletedPlan is for a plan that somebody keeps with a finalizer.
func deletedPlan(m *model) { m.plan.DeletionTimestamp = seconds(0) }
func later(n int) func(*model) {
	return func(m *model) { m.now = m.now.Add(time.Duration(n) * time.Second) }
}

// reserve writes the reservations that the plan needs.
func (m *model) reserve() {
	in := m.input()
	in.Objects.Now = m.now
	changes, err := Reservations(in.Objects, "", moveTimeout)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, change := range changes {
		m.annotate(change)
	}
}

func leaving(name string) func(*model) {
	return func(m *model) { m.pods[name].DeletionTimestamp = seconds(30) }
}

func gone(names ...string) func(*model) {
	return func(m *model) {
		for _, name := range names {
			delete(m.pods, name)
		}
	}
}

// again is a replacement on a node, running or not; "" for a Pod without a node.
func again(task string, index int, node string, phase corev1.PodPhase) func(*model) {
	return func(m *model) {
		pod := m.createPod(m.tasks[task], index)
		pod.Spec.NodeName, pod.Status.Phase = node, phase
	}
}

// withoutImage creates the successor of a task's Pod on node n1, where its image can't be pulled.
func withoutImage(task string) func(*model) {
	return func(m *model) {
		pod := m.createPod(m.tasks[task], 0)
		pod.Spec.NodeName, pod.Status.Phase = "n1", corev1.PodPending
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	}
}

func replaced(m *model) {
	gone("gang-0", "gang-1")(m)
	again("gang", 0, "n1", corev1.PodRunning)(m)
	again("gang", 1, "n1", corev1.PodRunning)(m)
}

func allReplaced(m *model) {
	replaced(m)
	gone("single")(m)
	again("single", 0, "n1", corev1.PodRunning)(m)
}

func counted(tasks ...string) func(*model) {
	return func(m *model) {
		for _, name := range tasks {
			m.tasks[name].Status.Moves, m.tasks[name].Status.LastMove = 1, &v1.LastMove{Plan: "plan", Time: *seconds(0)}
		}
	}
}

func succeeded(name string) func(*model) {
	return func(m *model) { m.pods[name].Status.Phase = corev1.PodSucceeded }
}

func cordoned(name string) func(*model) {
	return func(m *model) { m.nodes[name].Spec.Unschedulable = true }
}

func silent(name string) func(*model) {
	return func(m *model) {
		m.nodes[name].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	}
}

func suspended(name string) func(*model) {
	return func(m *model) { m.tasks[name].Spec.Suspend = new(true) }
}

func deleted(name string) func(*model) { return func(m *model) { delete(m.tasks, name) } }

func startedPending(m *model) {
	m.pods["pending"].Spec.NodeName, m.pods["pending"].Status.Phase = "n0", corev1.PodRunning
}

// budget is a PodDisruptionBudget of a task that allows so many disruptions now.
func budget(name, task string, allowed int32) func(*model) {
	return func(m *model) {
		m.budgets[name] = &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: new(intstr.FromInt32(allowed)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTask: task}},
			},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		}
	}
}

// savesWork lets Pods have a minute to save their work.
func savesWork(names ...string) func(*model) {
	return annotated(v1.AnnotationCheckpointTimeout, "60", names...)
}

// asked is that Pods were asked for a checkpoint just now.
func asked(names ...string) func(*model) {
	return annotated(v1.AnnotationCheckpointRequested, testTime.Format(time.RFC3339), names...)
}

func annotated(name, value string, pods ...string) func(*model) {
	return func(m *model) {
		for _, pod := range pods {
			metav1.SetMetaDataAnnotation(&m.pods[pod].ObjectMeta, name, value)
		}
	}
}

func saved(task string) func(*model) {
	return func(m *model) {
		metav1.SetMetaDataAnnotation(&m.tasks[task].ObjectMeta, v1.AnnotationLastCheckpoint, testTime.Format(time.RFC3339))
	}
}

func tried(name string, try Try) func(*model) {
	return func(m *model) { m.tries[m.pods[name].UID] = try }
}

func drifted(in *Input) {
	in.Drift = &Drift{Why: "node n1 has no room"}
}

func stale(in *Input) { in.Stale = "it fits without it" }

const (
	waiting   = v1.MoveWaiting
	evicted   = v1.MoveEvicted
	moved     = v1.MoveMoved
	elsewhere = v1.MoveElsewhere
	skipped   = v1.MoveSkipped
)

type stepTest struct {
	given  []func(*model)
	change func(*Input)
	// phase is the new phase; empty if the status stays as it is.
	phase           v1.MovePlanPhase
	reason, message string
	states          []v1.MoveState
	ask             []string // for a checkpoint
	evict, count    []string
	again           bool
}

func stepTests() map[string]stepTest {
	type list = []func(*model)
	type states = []v1.MoveState
	all := func(state v1.MoveState) states { return states{state, state, state} }
	executing := func(s ...v1.MoveState) func(*model) { return at(v1.PlanExecuting, s...) }
	late := later(int((moveTimeout + 40*time.Second) / time.Second))
	return map[string]stepTest{
		"a new plan is proposed":                   {given: list{unapproved}, phase: v1.PlanProposed, message: "waits for approval: kubectl gputask plan approve plan", states: all(waiting)},
		"a proposal waits":                         {given: list{unapproved, at(v1.PlanProposed, waiting, waiting, waiting), func(m *model) { m.plan.Status.Message = "waits for approval: kubectl gputask plan approve plan" }}},
		"a proposal that is approved":              {given: list{at(v1.PlanProposed, waiting, waiting, waiting)}, phase: v1.PlanApproved, states: all(waiting)},
		"a proposal that is refused":               {given: list{unapproved, abort, at(v1.PlanProposed, waiting, waiting, waiting)}, phase: v1.PlanAborted, reason: ReasonAbortRequested, states: all(skipped)},
		"a proposal that is stale":                 {given: list{unapproved, at(v1.PlanProposed, waiting, waiting, waiting)}, change: stale, phase: v1.PlanAborted, reason: ReasonStale, message: "it fits without it", states: all(skipped)},
		"a plan without moves":                     {given: list{func(m *model) { m.plan.Spec.Moves = nil }}, phase: v1.PlanAborted, reason: ReasonInvalid, message: "spec.moves: is empty"},
		"a plan for nobody":                        {given: list{func(m *model) { m.plan.Spec.For = nil }}, phase: v1.PlanAborted, reason: ReasonInvalid, message: "spec.for: is missing"},
		"a plan whose turns are mixed":             {given: list{func(m *model) { m.plan.Spec.Moves[0].Turn = 5 }}, phase: v1.PlanAborted, reason: ReasonInvalid, message: "spec.moves[1].turn: is 0 after 5"},
		"a plan whose record is of another one":    {given: list{at(v1.PlanExecuting, evicted, waiting, waiting), func(m *model) { m.plan.Status.Moves = append(m.plan.Status.Moves, m.plan.Status.Moves...) }}, phase: v1.PlanAborted, reason: ReasonInvalid, message: "status.moves: has 6 entries for 3 moves"},
		"a plan that has ended":                    {given: list{at(v1.PlanDone, moved, moved, moved)}},
		"an approved plan begins":                  {given: list{at(v1.PlanApproved, waiting, waiting, waiting)}, phase: v1.PlanExecuting, states: all(waiting)},
		"an approved plan that has drifted":        {given: list{at(v1.PlanApproved, waiting, waiting, waiting)}, change: drifted, phase: v1.PlanAborted, reason: ReasonDrifted, message: "n1 has no room", states: all(skipped)},
		"an approved plan that is deleted":         {given: list{deletedPlan, at(v1.PlanApproved, waiting, waiting, waiting)}, phase: v1.PlanAborted, reason: ReasonAbortRequested, states: all(skipped)},
		"an approved plan that is aborted":         {given: list{abort, at(v1.PlanApproved, waiting, waiting, waiting)}, phase: v1.PlanAborted, reason: ReasonAbortRequested, states: all(skipped)},
		"an approved plan for a task that runs":    {given: list{at(v1.PlanApproved, waiting, waiting, waiting), startedPending}, phase: v1.PlanDone, reason: ReasonStarted, states: all(skipped)},
		"an approved plan for a task that is gone": {given: list{at(v1.PlanApproved, waiting, waiting, waiting), deleted("pending")}, phase: v1.PlanDone, reason: ReasonNotNeeded, states: all(skipped)},

		"nothing is evicted before the places are kept":   {given: list{executing(waiting, waiting, waiting)}, again: true},
		"places that nobody can keep":                     {given: list{executing(waiting, waiting, waiting), late}, phase: v1.PlanAborted, reason: ReasonTimedOut, states: all(skipped)},
		"a node that is gone":                             {given: list{executing(waiting, waiting, waiting), func(m *model) { delete(m.nodes, "n1") }}, phase: v1.PlanAborted, reason: ReasonDrifted, message: "node n1 is gone", states: all(skipped)},
		"the intent is written first":                     {given: list{executing(waiting, waiting, waiting), placesKept}, phase: v1.PlanExecuting, message: "turn 1 of 2: moving 2 Pods of GPUTask default/gang", states: states{evicted, evicted, waiting}},
		"a turn does not begin when the cluster drifted":  {given: list{executing(waiting, waiting, waiting), placesKept}, change: drifted, phase: v1.PlanAborted, reason: ReasonDrifted, states: all(skipped)},
		"a turn does not begin when the plan is deleted":  {given: list{executing(moved, moved, waiting), placesKept, replaced, counted("gang"), deletedPlan}, phase: v1.PlanAborted, reason: ReasonAbortRequested, message: "after 2 of 3 Pods", states: states{moved, moved, skipped}},
		"a turn does not begin when the plan is aborted":  {given: list{executing(moved, moved, waiting), placesKept, replaced, counted("gang"), abort}, phase: v1.PlanAborted, reason: ReasonAbortRequested, message: "after 2 of 3 Pods", states: states{moved, moved, skipped}},
		"a turn does not begin when the task has started": {given: list{executing(moved, moved, waiting), placesKept, replaced, counted("gang"), startedPending}, phase: v1.PlanDone, reason: ReasonStarted, states: states{moved, moved, skipped}},
		"a budget that allows too little for a gang":      {given: list{executing(waiting, waiting, waiting), placesKept, budget("pdb", "gang", 1)}, phase: v1.PlanExecuting, message: "turn 1 of 2 waits: PodDisruptionBudget default/pdb lets 1 of the 2 Pods go now", states: all(waiting), again: true},
		"a budget that allows all":                        {given: list{executing(waiting, waiting, waiting), placesKept, budget("pdb", "gang", 2)}, phase: v1.PlanExecuting, states: states{evicted, evicted, waiting}},
		"a budget of others":                              {given: list{executing(waiting, waiting, waiting), placesKept, budget("pdb", "single", 0)}, phase: v1.PlanExecuting, states: states{evicted, evicted, waiting}},
		"two budgets for one Pod":                         {given: list{executing(waiting, waiting, waiting), placesKept, budget("a", "gang", 2), budget("b", "gang", 2)}, phase: v1.PlanExecuting, message: "covered by two PodDisruptionBudgets, default/a and default/b", states: all(waiting), again: true},
		"a budget that never allows enough":               {given: list{executing(waiting, waiting, waiting), placesKept, budget("pdb", "gang", 0), late}, phase: v1.PlanAborted, reason: ReasonForbidden, message: "PodDisruptionBudget default/pdb", states: all(skipped)},
		"Pods that save their work are asked to do so":    {given: list{executing(waiting, waiting, waiting), placesKept, savesWork("gang-0", "gang-1")}, phase: v1.PlanExecuting, message: "turn 1 of 2 waits for a checkpoint of GPUTask default/gang", states: all(waiting), ask: []string{"gang-0", "gang-1"}, again: true},
		"Pods that have saved their work are evicted":     {given: list{executing(waiting, waiting, waiting), placesKept, savesWork("gang-0", "gang-1"), asked("gang-0", "gang-1"), saved("gang")}, phase: v1.PlanExecuting, states: states{evicted, evicted, waiting}},
		"Pods that do not save their work in time":        {given: list{executing(waiting, waiting, waiting), placesKept, savesWork("gang-0", "gang-1"), asked("gang-0", "gang-1"), later(60)}, phase: v1.PlanExecuting, states: states{evicted, evicted, waiting}},
		"a Pod that ended before its turn is skipped":     {given: list{executing(waiting, waiting, waiting), placesKept, succeeded("single")}, phase: v1.PlanExecuting, states: states{waiting, waiting, skipped}},
		"a gang that lost a Pod is left alone":            {given: list{executing(waiting, waiting, waiting), placesKept, leaving("gang-1")}, phase: v1.PlanExecuting, states: states{skipped, skipped, waiting}},
		"a gang with one ended Pod still moves":           {given: list{executing(waiting, waiting, waiting), placesKept, succeeded("gang-0")}, phase: v1.PlanExecuting, states: states{skipped, waiting, waiting}},
		"a task that is suspended is skipped":             {given: list{executing(waiting, waiting, waiting), placesKept, suspended("gang")}, phase: v1.PlanExecuting, states: states{skipped, skipped, waiting}},

		"a turn's Pods are evicted together":                 {given: list{executing(evicted, evicted, waiting), placesKept}, evict: []string{"gang-0", "gang-1"}, again: true},
		"a turn goes on where it stopped":                    {given: list{executing(evicted, evicted, waiting), placesKept, leaving("gang-0"), counted("gang")}, evict: []string{"gang-1"}, again: true},
		"a plan of a name that was used before counts":       {given: list{executing(evicted, evicted, waiting), placesKept, leaving("gang-0"), counted("gang"), func(m *model) { m.tasks["gang"].Status.LastMove.Time = *seconds(-3600) }}, evict: []string{"gang-1"}, count: []string{"gang"}, again: true},
		"a move is counted when its Pod leaves":              {given: list{executing(evicted, evicted, waiting), placesKept, leaving("gang-0")}, evict: []string{"gang-1"}, count: []string{"gang"}, again: true},
		"a refusal is asked again after a while":             {given: list{executing(evicted, evicted, waiting), placesKept, leaving("gang-0"), counted("gang"), tried("gang-1", Try{At: testTime, Refusal: "no"})}, again: true},
		"a refusal is asked again":                           {given: list{executing(evicted, evicted, waiting), placesKept, leaving("gang-0"), counted("gang"), tried("gang-1", Try{At: testTime, Refusal: "no"}), later(2)}, evict: []string{"gang-1"}, again: true},
		"an eviction that the caches do not show":            {given: list{executing(evicted, evicted, waiting), placesKept, leaving("gang-0"), counted("gang"), tried("gang-1", Try{At: testTime, Granted: true}), later(2)}, again: true},
		"an abort in a turn waits for its end":               {given: list{executing(evicted, evicted, waiting), placesKept, leaving("gang-0"), counted("gang"), abort}, evict: []string{"gang-1"}, again: true},
		"an abort before the first eviction":                 {given: list{executing(evicted, evicted, waiting), placesKept, abort}, phase: v1.PlanAborted, reason: ReasonAbortRequested, states: all(skipped)},
		"an abort when a part of a gang has arrived":         {given: list{executing(moved, evicted, waiting), placesKept, gone("gang-0"), again("gang", 0, "n1", corev1.PodRunning), counted("gang"), abort}, evict: []string{"gang-1"}, again: true},
		"a task that starts before the eviction":             {given: list{executing(evicted, evicted, waiting), placesKept, startedPending}, phase: v1.PlanDone, reason: ReasonStarted, states: all(skipped)},
		"a replacement without a node":                       {given: list{executing(evicted, evicted, waiting), placesKept, gone("gang-0"), again("gang", 0, "", corev1.PodPending), leaving("gang-1"), counted("gang")}, again: true},
		"a destination that is lost on the way":              {given: list{executing(evicted, evicted, waiting), placesKept, gone("gang-0"), again("gang", 0, "", corev1.PodPending), counted("gang"), func(m *model) { delete(m.nodes, "n1") }}, phase: v1.PlanExecuting, reason: ReasonDrifted, message: "Pod default/gang-0 can't reach its destination: node n1 is gone", states: states{evicted, skipped, skipped}},
		"a destination that is cordoned":                     {given: list{executing(evicted, evicted, waiting), placesKept, cordoned("n1")}, phase: v1.PlanAborted, reason: ReasonDrifted, message: "node n1 is cordoned", states: all(skipped)},
		"a destination that is cordoned too late":            {given: list{executing(evicted, evicted, waiting), placesKept, gone("gang-0", "gang-1"), again("gang", 0, "n1", corev1.PodPending), again("gang", 1, "n1", corev1.PodPending), counted("gang"), cordoned("n1")}, again: true},
		"a destination that becomes not ready with its Pods": {given: list{executing(evicted, evicted, waiting), placesKept, gone("gang-0", "gang-1"), again("gang", 0, "n1", corev1.PodPending), again("gang", 1, "n1", corev1.PodPending), counted("gang"), silent("n1")}, phase: v1.PlanExecuting, reason: ReasonDrifted, message: "node n1 is not ready", states: states{evicted, evicted, skipped}},
		"a destination that becomes not ready":               {given: list{executing(evicted, evicted, waiting), placesKept, silent("n1")}, phase: v1.PlanAborted, reason: ReasonDrifted, message: "node n1 is not ready", states: all(skipped)},
		"a replacement that does not run yet":                {given: list{executing(evicted, evicted, waiting), placesKept, gone("gang-0"), again("gang", 0, "n1", corev1.PodPending), leaving("gang-1"), counted("gang")}, again: true},
		"a replacement that runs":                            {given: list{executing(evicted, evicted, waiting), placesKept, gone("gang-0"), again("gang", 0, "n1", corev1.PodRunning), leaving("gang-1"), counted("gang")}, phase: v1.PlanExecuting, states: states{moved, evicted, waiting}},
		"the next turn begins when all run":                  {given: list{executing(evicted, evicted, waiting), placesKept, replaced, counted("gang")}, phase: v1.PlanExecuting, message: "turn 2 of 2 is next", states: states{moved, moved, waiting}},
		"a replacement elsewhere stops the plan":             {given: list{executing(evicted, evicted, waiting), placesKept, gone("gang-0"), again("gang", 0, "n2", corev1.PodRunning), counted("gang")}, phase: v1.PlanAborted, reason: ReasonElsewhere, message: "Pod default/gang-0 ended up on node n2 instead of n1", states: states{elsewhere, skipped, skipped}},
		"a gang under way is waited for":                     {given: list{executing(evicted, evicted, waiting), placesKept, gone("gang-0"), again("gang", 0, "n2", corev1.PodRunning), leaving("gang-1"), counted("gang")}, phase: v1.PlanExecuting, reason: ReasonElsewhere, states: states{elsewhere, evicted, skipped}},
		"a Pod that ended before it was evicted":             {given: list{executing(evicted, evicted, waiting), placesKept, succeeded("gang-0")}, phase: v1.PlanExecuting, states: states{skipped, evicted, waiting}},
		"a member that has succeeded does not return":        {given: list{executing(evicted, evicted, waiting), placesKept, gone("gang-0"), counted("gang"), func(m *model) { m.tasks["gang"].Status.CompletedIndexes = "0" }}, phase: v1.PlanExecuting, states: states{skipped, evicted, waiting}},
		"a task that is deleted while it is moved":           {given: list{executing(evicted, evicted, waiting), placesKept, gone("gang-0", "gang-1"), deleted("gang")}, phase: v1.PlanExecuting, states: states{skipped, skipped, waiting}},
		"a Pod that can't be evicted in time":                {given: list{executing(evicted, evicted, waiting), placesKept, tried("gang-0", Try{At: testTime, Refusal: "the budget says no"}), late}, phase: v1.PlanAborted, reason: ReasonForbidden, message: "the budget says no", states: all(skipped)},
		"a gang that is evicted halfway is waited for":       {given: list{executing(evicted, evicted, waiting), placesKept, gone("gang-0"), again("gang", 0, "", corev1.PodPending), counted("gang"), late}, phase: v1.PlanExecuting, reason: ReasonTimedOut, message: "found no node in time; waiting for the evicted Pods", states: states{evicted, skipped, skipped}},
		"a Pod that does not end":                            {given: list{executing(evicted, evicted, waiting), placesKept, leaving("gang-0"), leaving("gang-1"), counted("gang"), late}, phase: v1.PlanExecuting, reason: ReasonTimedOut, message: "did not terminate in time", states: states{evicted, evicted, skipped}},
		"a Pod that has its node may pull its image":         {given: list{executing(moved, moved, evicted), placesKept, replaced, gone("single"), again("single", 0, "n1", corev1.PodPending), counted("gang", "single"), late}, again: true},
		"a Pod that can't pull its image":                    {given: list{executing(moved, moved, evicted), placesKept, replaced, gone("single"), withoutImage("single"), counted("gang", "single"), late}, phase: v1.PlanAborted, reason: ReasonTimedOut, states: states{moved, moved, moved}},
		"a Pod that has its node and does not start":         {given: list{executing(moved, moved, evicted), placesKept, replaced, gone("single"), again("single", 0, "n1", corev1.PodPending), counted("gang", "single"), late, later(int(maxPull / time.Second))}, phase: v1.PlanAborted, reason: ReasonTimedOut, states: states{moved, moved, moved}},

		"the end waits for the Pods on their way":     {given: list{executing(evicted, skipped, skipped), stopping, gone("gang-0"), again("gang", 0, "", corev1.PodPending), counted("gang"), late}, again: true},
		"the end comes when they have nodes":          {given: list{executing(evicted, skipped, skipped), stopping, gone("gang-0"), again("gang", 0, "n1", corev1.PodPending), counted("gang"), late}, phase: v1.PlanAborted, reason: ReasonTimedOut, message: "why", states: states{moved, skipped, skipped}},
		"the end comes when they are back":            {given: list{executing(evicted, skipped, skipped), stopping, gone("gang-0"), again("gang", 0, "n0", corev1.PodPending), counted("gang"), late}, phase: v1.PlanAborted, reason: ReasonTimedOut, message: "why", states: states{elsewhere, skipped, skipped}},
		"the end does not wait forever":               {given: list{executing(evicted, skipped, skipped), stopping, gone("gang-0"), again("gang", 0, "", corev1.PodPending), counted("gang"), late, late}, phase: v1.PlanAborted, reason: ReasonTimedOut, states: states{evicted, skipped, skipped}},
		"nothing is evicted while a plan is stopping": {given: list{executing(evicted, evicted, skipped), stopping, leaving("gang-0"), counted("gang")}, again: true},

		"the task is waited for when all are moved":    {given: list{executing(moved, moved, moved), allReplaced, counted("gang", "single")}, phase: v1.PlanExecuting, message: "3 Pods moved; waits for GPUTask default/pending to start", states: all(moved), again: true},
		"the plan is done when the task has nodes":     {given: list{executing(moved, moved, moved), allReplaced, startedPending, counted("gang", "single")}, phase: v1.PlanDone, reason: ReasonStarted, states: all(moved)},
		"the plan ends after its moves are counted":    {given: list{executing(moved, moved, moved), allReplaced, startedPending, counted("gang")}, count: []string{"single"}, again: true},
		"a task that does not start":                   {given: list{executing(moved, moved, moved), allReplaced, counted("gang", "single"), later(121)}, phase: v1.PlanAborted, reason: ReasonNotStarted, message: "3 Pods moved, but GPUTask default/pending did not start within 2m0s", states: all(moved)},
		"an abort while the task is waited for":        {given: list{executing(moved, moved, moved), allReplaced, counted("gang", "single"), abort}, phase: v1.PlanAborted, reason: ReasonAbortRequested, states: all(moved)},
		"a plan for capacity is done with its moves":   {given: list{forCapacity, executing(moved, moved, moved), allReplaced, counted("gang", "single")}, phase: v1.PlanDone, reason: ReasonCompleted, message: "3 Pods moved", states: all(moved)},
		"where the scheduler chooses any node will do": {given: list{recreating, executing(evicted, evicted, waiting), gone("gang-0"), again("gang", 0, "n2", corev1.PodRunning), leaving("gang-1"), counted("gang")}, phase: v1.PlanExecuting, states: states{moved, evicted, waiting}},
	}
}

func stopping(m *model) {
	m.plan.Status.Reason, m.plan.Status.Message = ReasonTimedOut, "why"+waitText
}

func forCapacity(m *model) {
	m.plan.Spec.Goal, m.plan.Spec.For, m.plan.Spec.Places = v1.GoalCapacity, nil, nil
}

func recreating(m *model) {
	forCapacity(m)
	m.plan.Spec.Goal = v1.GoalRecreate
	for i := range m.plan.Spec.Moves {
		m.plan.Spec.Moves[i].To = v1.MovePlace{}
	}
}
