// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

func TestGPUs(t *testing.T) {
	t.Parallel()
	nodes := func() *builder { return new(builder).node(newNode("n", "A", "B")).node(newNode("m", "C")) }
	tests := cases{
		"each Pod has its own":                    {nodes().pod(newPod("a", nil, "A"), newPod("b", nil, "B")), ""},
		"two Pods have one":                       {nodes().pod(newPod("a", nil, "A"), newPod("b", nil, "A")), "200 % of the GPU are allocated, to Pods [ns/a (100 %) ns/b (100 %)]"},
		"one follows the other":                   {nodes().pod(newPod("a", nil, "A"), with(newPod("a", nil, "A"), hasSucceeded), newPod("b", nil, "A")), ""},
		"one follows another that was deleted":    {nodes().pod(newPod("a", nil, "A")).podGone(newPod("a", nil, "A")).pod(newPod("b", nil, "A")), ""},
		"a Pod that is being deleted still holds": {nodes().pod(newPod("a", nil, "A"), with(newPod("a", nil, "A"), deleting), newPod("b", nil, "A")), "200 %"},
		"shares add up to the card":               {nodes().pod(share("a", 40), share("b", 60)), ""},
		"shares are more than the card":           {nodes().pod(share("a", 50), share("b", 60)), "110 % of the GPU are allocated"},
		"a share of a card that is given away":    {nodes().pod(newPod("a", nil, "A"), share("b", 10)), "110 % of the GPU"},
		"a GPU of another node":                   {nodes().pod(newPod("a", nil, "C")), "is on node n and has got GPU C of node m"},
		"too few":                                 {nodes().pod(with(newPod("a", nil, "A"), func(pod *corev1.Pod) { request(pod, v1.ResourceGPU, 2) })), "requests 2 GPUs and has got [A]"},
		"none":                                    {nodes().pod(with(newPod("a", nil, "A"), func(pod *corev1.Pod) { pod.Annotations = nil })), "is bound to n without GPUs"},
		"they change while the Pod runs":          {nodes().pod(newPod("a", nil, "A"), newPod("a", nil, "B")), "the GPUs of the Pod have changed"},
	}
	tests.check(t, InvariantCards)
}

func TestQueues(t *testing.T) {
	t.Parallel()
	queue := func(used string) *v1.GPUQueue {
		return &v1.GPUQueue{
			ObjectMeta: metav1.ObjectMeta{Name: "q"},
			Spec:       v1.GPUQueueSpec{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "ns"}}},
			Status:     v1.GPUQueueStatus{Summary: &v1.GPUQueueSummary{Used: used}},
		}
	}
	elsewhere := with(newPod("b", nil, "B"), func(pod *corev1.Pod) { pod.Namespace = "other" })
	long := 91 * time.Second
	const wrong = "says that it holds 2.00 GPUs, and the Pods of its namespace held at most 1.00 in the last 1m30s"
	tests := cases{
		"it pays for its own Pods":                 {new(builder).pod(newPod("a", nil, "A")).queue(queue("1")).wait(long).pod(elsewhere), ""},
		"it pays for the Pod of another team":      {new(builder).pod(newPod("a", nil, "A"), elsewhere).queue(queue("2")), wrong},
		"its status is behind for a moment":        {new(builder).pod(newPod("a", nil, "A"), newPod("c", nil, "C")).queue(queue("2")).pod(with(newPod("c", nil, "C"), hasSucceeded)).wait(30 * time.Second).pod(elsewhere), ""},
		"its status is behind for minutes":         {new(builder).pod(newPod("a", nil, "A"), newPod("c", nil, "C")).queue(queue("2")).pod(with(newPod("c", nil, "C"), hasSucceeded)).wait(long).pod(elsewhere), wrong},
		"faults have the status wait":              {new(builder).pod(newPod("a", nil, "A"), newPod("c", nil, "C")).queue(queue("2")).add(history.Entry{Fault: &history.Fault{Number: 1, Kind: FaultPause}}).podGone(newPod("c", nil, "C")).wait(long).pod(elsewhere), ""},
		"a queue that was deleted pays for nobody": {new(builder).pod(newPod("a", nil, "A")).queue(queue("1")).queueGone(queue("1")).podGone(newPod("a", nil, "A")).wait(long).pod(elsewhere), ""},
	}
	tests.check(t, InvariantQueues)
}

func TestGangs(t *testing.T) {
	t.Parallel()
	task := newTask("g")
	a, b, c := member(task, 0, 3), member(task, 1, 3), member(task, 2, 3)
	long, veryLong := 20*time.Second, 70*time.Second
	tests := cases{
		"a gang that starts as a whole":                  {new(builder).task(task).pod(a, b, c).wait(long).pod(a), ""},
		"a gang that starts partly, and stays so":        {new(builder).task(task).pod(a, b).wait(long).pod(b), "at most 2 of the 3 Pods that must start together had nodes for 21s of calm"},
		"a gang that starts partly for a moment":         {new(builder).task(task).pod(a, b).wait(5 * time.Second).pod(c).wait(long).pod(c), ""},
		"a gang that lost a Pod has time to get it back": {new(builder).task(task).pod(a, b, c, with(c, preempted)).podGone(c).wait(long).pod(b), ""},
		"a gang that lost a Pod, and never gets it back": {new(builder).task(task).pod(a, b, c, with(c, preempted)).podGone(c).wait(veryLong).pod(b), "after it was disturbed; the limit is 50s"},
		"faults while it starts give it more time":       {new(builder).task(task).pod(a).fault(FaultKill, "gpu-scheduler").pod(b).wait(long).pod(b), ""},
		"time does not count while faults are injected":  {new(builder).task(task).pod(a).add(history.Entry{Fault: &history.Fault{Number: 1, Kind: FaultPause}}).wait(veryLong).pod(b), ""},
		"members that have succeeded count":              {new(builder).task(task).pod(a, b, c, with(b, hasSucceeded), with(c, hasSucceeded)).wait(veryLong).pod(a), ""},
		"after a restart they count no more": {new(builder).task(task).pod(a, b, c, with(b, hasSucceeded)).podGone(b).pod(with(b, func(pod *corev1.Pod) {
			unbound(pod)
			pod.UID, pod.Labels[v1.LabelAttempt] = "again", "1"
		})).wait(veryLong).pod(a), "2 of the 3 Pods"},
	}
	tests.check(t, InvariantGangs)
}

func TestWhatCanNeverStartHoldsNothing(t *testing.T) {
	t.Parallel()
	pod := with(newPod("big", nil), func(pod *corev1.Pod) { pod.Labels[LabelInfeasible] = "true" })
	new(builder).pod(with(pod, unbound)).mustFindNothing(t)
	new(builder).pod(pod).mustFind(t, InvariantInfeasible, "has got node n")
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	task := newTask("t")
	pod := newPod("t", task)
	start := func() *builder { return new(builder).task(task).node(newNode("n")).pod(pod) }
	again := with(pod, func(pod *corev1.Pod) { another("again")(pod); unbound(pod) })
	next := with(again, func(pod *corev1.Pod) { pod.Labels[v1.LabelAttempt] = "1" })
	lost := with(pod, preempted)
	deleted := func(user string, end func(*corev1.Pod)) *builder {
		return start().pod(with(pod, end)).podGone(with(pod, end)).request(user, "delete", "pods", "ns", "t")
	}
	tests := cases{
		"a Pod that has succeeded is created again":                  {deleted(UserController, hasSucceeded).pod(again), "created again in attempt 0, in which it has Succeeded"},
		"a Pod that has failed is created in the same attempt":       {deleted(UserController, hasFailed).pod(again), "created again in attempt 0, in which it has Failed"},
		"a Pod that has failed is created in the next attempt":       {deleted(UserController, hasFailed).pod(next), ""},
		"a Pod that was refused is created again":                    {deleted(UserController, refused).pod(again), ""},
		"a Pod that was lost with a reboot is created again":         {deleted(UserController, rebooted).pod(again), ""},
		"a Pod that was lost is created again":                       {start().pod(lost).podGone(lost).pod(again), ""},
		"Kubernetes deleted it before anybody saw that it succeeded": {deleted("kube-controller-manager", hasSucceeded).pod(again), ""},
		"nobody knows who deleted it":                                {start().pod(with(pod, hasSucceeded)).podGone(with(pod, hasSucceeded)).pod(again), ""},
		"Kubernetes deleted the Pod before it":                       {start().request("kube-controller-manager", "delete", "pods", "ns", "t").wait(time.Minute).pod(with(pod, hasFailed)).request(UserController, "delete", "pods", "ns", "t").podGone(with(pod, hasFailed)).pod(again), "created again"},
		"its user has suspended it meanwhile":                        {deleted(UserController, hasFailed).intent("suspend").pod(again), ""},
		"its user had suspended it long before":                      {start().intent("suspend").wait(2*intentGrace).pod(with(pod, hasFailed)).request(UserController, "delete", "pods", "ns", "t").podGone(with(pod, hasFailed)).pod(again), "created again"},
	}
	tests.check(t, InvariantAttempts)
}

func TestFailures(t *testing.T) {
	t.Parallel()
	task := newTask("t")
	restarted := func(count int32, phase v1.GPUTaskPhase) *v1.GPUTask {
		return taskWith(task, func(task *v1.GPUTask) { task.Status.Restarts, task.Status.Phase = count, phase })
	}
	one, other := member(task, 0, 2), member(task, 1, 2)
	noneLeft := taskWith(restarted(0, v1.PhaseFailed), func(task *v1.GPUTask) {
		task.Spec.BackoffLimit = new(int32)
		task.Status.Conditions = []metav1.Condition{{Type: v1.ConditionFailed, Status: metav1.ConditionTrue, Reason: v1.ReasonBackoffLimitExceeded}}
	})
	byItself := taskWith(restarted(2, v1.PhaseRunning), func(task *v1.GPUTask) { task.Spec.FailurePolicy = v1.RestartPod })
	end := []history.Mark{history.LoadEnds, history.Converged}
	tests := cases{
		"a failure is counted once":                     {new(builder).task(task).pod(one, with(one, hasFailed)).task(restarted(1, v1.PhaseRunning)), ""},
		"a failure is counted twice":                    {new(builder).task(task).pod(one, with(one, hasFailed)).task(restarted(2, v1.PhaseRunning)), "status.restarts is 2, and there were 1 failures"},
		"a failure is counted that has not happened":    {new(builder).task(task).pod(one).task(restarted(1, v1.PhaseRunning)), "status.restarts is 1, and there were 0 failures"},
		"members that fail together count once":         {new(builder).task(task).pod(one, other, with(one, hasFailed), with(other, hasFailed)).task(restarted(2, v1.PhaseRunning)), "there were 1 failures"},
		"with RestartPod each counts":                   {new(builder).task(taskWith(byItself, func(task *v1.GPUTask) { task.Status.Restarts = 0 })).pod(one, other, with(one, hasFailed), with(other, hasFailed)).task(byItself), ""},
		"a Pod that was lost has not failed":            {new(builder).task(task).pod(one, with(with(one, preempted), hasFailed)).task(restarted(1, v1.PhaseRunning)), "there were 0 failures"},
		"a Pod that was refused has not failed":         {new(builder).task(task).pod(one, with(one, refused)).task(restarted(1, v1.PhaseRunning)), "there were 0 failures"},
		"nor has one whose node was rebooted":           {new(builder).task(task).pod(one, with(one, rebooted)).task(restarted(1, v1.PhaseRunning)), "there were 0 failures"},
		"nor one that its kubelet does not find":        {new(builder).task(task).pod(one, with(one, notFound)).task(restarted(1, v1.PhaseRunning)), "there were 0 failures"},
		"a refusal ends a task":                         {new(builder).task(task).pod(one, with(one, refused)).task(noneLeft), "its backoffLimit is 0, and there were 0 failures"},
		"a failure ends a task":                         {new(builder).task(task).pod(one, with(one, hasFailed)).task(noneLeft), ""},
		"a failure was not counted in the end":          {new(builder).task(task).pod(one, with(one, hasFailed)).task(restarted(0, v1.PhaseSucceeded)).mark(end...), "1 failures should have been counted"},
		"Kubernetes has deleted a Pod that had failed":  {new(builder).task(task).pod(one, with(one, hasFailed)).podGone(with(one, hasFailed)).request("kube-controller-manager", "delete", "pods", "ns", one.Name).task(restarted(0, v1.PhaseSucceeded)).mark(end...), ""},
		"the controller has, and has not counted it":    {new(builder).task(task).pod(one, with(one, hasFailed)).podGone(with(one, hasFailed)).request(UserController, "delete", "pods", "ns", one.Name).task(restarted(0, v1.PhaseSucceeded)).mark(end...), "1 failures should have been counted"},
		"the failure that ends a task restarts nothing": {new(builder).task(task).pod(one, with(one, hasFailed)).task(restarted(0, v1.PhaseFailed)).mark(end...), ""},
		"what was before the history is unknown":        {new(builder).task(restarted(3, v1.PhaseRunning)).task(restarted(3, v1.PhaseRunning)), ""},
	}
	tests.check(t, InvariantFailures)
}

func TestPodsOfOthers(t *testing.T) {
	t.Parallel()
	pod := with(newPod("other", nil), func(pod *corev1.Pod) { pod.Labels[LabelForeign] = "true" })
	relabelled := with(pod, func(pod *corev1.Pod) { pod.Labels["x"] = "y" })
	annotated := with(pod, func(pod *corev1.Pod) { pod.Annotations["x"] = "y" })
	bound := with(pod, func(pod *corev1.Pod) { pod.Annotations[v1.AnnotationSchedulerInstance] = "s" })
	adopted := with(pod, func(pod *corev1.Pod) { pod.OwnerReferences = newPod("x", newTask("t")).OwnerReferences })
	tests := cases{
		"the scheduler binds it":              {new(builder).pod(with(pod, unbound), bound).request(UserScheduler, "create", "pods/binding", "ns", "other"), ""},
		"its kubelet writes its status":       {new(builder).pod(pod, with(pod, hasSucceeded)).request("kwok", "patch", "pods/status", "ns", "other"), ""},
		"it gets a label":                     {new(builder).pod(pod, relabelled), "its labels have changed"},
		"it gets an annotation":               {new(builder).pod(pod, annotated), "its annotations have changed"},
		"it gets an owner":                    {new(builder).pod(pod, adopted), "its owners have changed"},
		"it is deleted":                       {new(builder).pod(pod, with(pod, deleting)), "the Pod was deleted"},
		"the controller writes to it in vain": {new(builder).pod(pod).request(UserController, "patch", "pods", "ns", "other"), "has sent: patch pods"},
		"the scheduler evicts it":             {new(builder).pod(pod).request(UserScheduler, "create", "pods/eviction", "ns", "other"), "has sent: create pods/eviction"},
		"a Pod of a task is not of others":    {new(builder).pod(newPod("mine", nil)).request(UserController, "delete", "pods", "ns", "mine"), ""},
	}
	tests.check(t, InvariantOthers)
}

func TestWhatRunsIsNotStopped(t *testing.T) {
	t.Parallel()
	task := newTask("t")
	pod := newPod("t", task)
	restarting := taskWith(task, func(task *v1.GPUTask) { task.Status.TaskRestarts = &v1.TaskRestarts{Count: 1} })
	failing := taskWith(task, func(task *v1.GPUTask) {
		task.Status.Conditions = []metav1.Condition{{Type: v1.ConditionFailureTarget, Status: metav1.ConditionTrue}}
	})
	starting := newNode("n")
	starting.Status.Conditions[0].Status = corev1.ConditionFalse
	start := func() *builder { return new(builder).node(starting).node(newNode("n")).task(task).pod(pod) }
	tests := cases{
		"its node is not ready any more":          {start().node(starting).podGone(pod), "ran on node n and was deleted"},
		"for no reason":                           {start().pod(with(pod, deleting)), "ran on node n and was deleted"},
		"after a kill of the controller":          {start().fault(FaultKill, "gpu-controller").podGone(pod), "ran on node n and was deleted"},
		"its task is deleted":                     {start().intent("delete").podGone(pod), ""},
		"it is moved, and not evicted":            {start().plan(movePlan(task, pod)).pod(with(pod, deleting)), "ran on node n and was deleted"},
		"its task is suspended":                   {start().intent("suspend").pod(with(pod, deleting)), ""},
		"its task starts again":                   {start().task(restarting).pod(with(pod, deleting)), ""},
		"its task has failed":                     {start().task(failing).pod(with(pod, deleting)), ""},
		"it is preempted":                         {start().pod(with(pod, preempted)), ""},
		"its node is lost":                        {start().fault(FaultDelete, "n").podGone(pod), "ran on node n and was deleted"},
		"its node is lost, says Kubernetes":       {start().fault(FaultDelete, "n").pod(with(pod, preempted)).podGone(with(pod, preempted)), ""},
		"its task was suspended long ago":         {start().intent("suspend").intent("resume").wait(2 * intentGrace).podGone(pod), "was deleted"},
		"it has ended before":                     {start().pod(with(pod, hasSucceeded)).podGone(with(pod, hasSucceeded)), ""},
		"somebody deletes all tasks":              {start().fault(FaultCRD, "gputasks.falldio.com").podGone(pod), ""},
		"somebody has deleted all tasks long ago": {start().fault(FaultCRD, "gputasks.falldio.com").wait(crdDeletionGrace).podGone(pod), "was deleted"},
	}
	tests.check(t, InvariantRunning)
}

func TestMoves(t *testing.T) {
	t.Parallel()
	task := newTask("t")
	pod := newPod("t", task)
	plan := movePlan(task, pod)
	done := plan.DeepCopy()
	done.Status.Phase = v1.PlanDone
	done.Status.Moves = []v1.MoveStatus{{State: v1.MoveMoved, EvictedAt: &metav1.Time{Time: begin}}}
	reserved := newNode("m")
	reserved.Annotations[reservation.Annotation] = `[{"plan":"p","pod":"ns/t","kind":"Move","until":"2026-01-01T00:10:00Z"}]`
	skipped := done.DeepCopy()
	skipped.Status.Moves = []v1.MoveStatus{{State: v1.MoveSkipped}}
	again := plan.DeepCopy()
	again.UID, again.Name = "uid-of-q", "p" // the same reservation will do
	again.Status.Moves = []v1.MoveStatus{{State: v1.MoveEvicted, EvictedAt: &metav1.Time{Time: begin.Add(time.Minute)}}}
	once := taskWith(task, func(task *v1.GPUTask) { task.Spec.Rescheduling = &v1.Rescheduling{MaxMoves: new(int32(1))} })
	never := taskWith(task, func(task *v1.GPUTask) { task.Spec.Rescheduling = &v1.Rescheduling{Policy: v1.ReschedulingNever} })
	moved := taskWith(task, func(task *v1.GPUTask) { task.Status.Moves = 1 })
	gang := newTask("g")
	neverGang := taskWith(gang, func(task *v1.GPUTask) { task.Spec.Rescheduling = &v1.Rescheduling{Policy: v1.ReschedulingNever} })
	first, second := member(gang, 0, 2), member(gang, 1, 2)
	proposed := plan.DeepCopy()
	proposed.Status.Phase = v1.PlanProposed
	cordoned := newNode("n")
	cordoned.Spec.Unschedulable = true
	end := []history.Mark{history.LoadEnds, history.Converged}
	tests := map[string]struct {
		history         *builder
		invariant, want string
	}{
		"a Pod is moved to a place that is reserved":             {new(builder).task(task).pod(pod).node(reserved).plan(plan).pod(with(pod, evicted)), "", ""},
		"a Pod is moved to a place that is not":                  {new(builder).task(task).pod(pod).node(newNode("m")).plan(plan).pod(with(pod, evicted)), InvariantReserved, "where no place was reserved for it"},
		"a Pod is evicted that no plan moves":                    {new(builder).task(task).pod(pod).node(newNode("n")).pod(with(pod, evicted)).request(UserController, "create", "pods/eviction", "ns", "t"), InvariantMayMove, "is not cordoned, and no plan moves it"},
		"a Pod is evicted by a plan that waits":                  {new(builder).task(task).pod(pod).node(reserved).plan(proposed).pod(with(pod, evicted)).request(UserController, "create", "pods/eviction", "ns", "t"), InvariantMayMove, "no plan moves it"},
		"an administrator evicts a Pod":                          {new(builder).task(task).pod(pod).node(newNode("n")).pod(with(pod, evicted)).request("admin", "create", "pods/eviction", "ns", "t"), "", ""},
		"the scheduler evicts a complete gang":                   {new(builder).task(gang).pod(first, second, with(second, evicted)).request(UserScheduler, "create", "pods/eviction", "ns", second.Name), InvariantRunning, "and its gang was complete"},
		"the scheduler evicts an incomplete gang":                {new(builder).task(gang).pod(first, with(first, evicted)).request(UserScheduler, "create", "pods/eviction", "ns", first.Name), "", ""},
		"a Pod is evicted from a cordoned node":                  {new(builder).task(task).pod(pod).node(cordoned).pod(with(pod, evicted)), "", ""},
		"a Pod is evicted long after the cordon":                 {new(builder).task(task).pod(pod).node(cordoned).node(newNode("n")).wait(2*cordonGrace).pod(with(pod, evicted)).request(UserController, "create", "pods/eviction", "ns", "t"), InvariantMayMove, "no plan moves it"},
		"a Pod is moved that must not be":                        {new(builder).task(never).pod(pod).node(reserved).plan(plan).pod(with(pod, evicted)), InvariantMayMove, "policy of its task is Never"},
		"a Pod is evicted for its node that must not be":         {new(builder).task(never).pod(pod).node(cordoned).pod(with(pod, evicted)).request(UserController, "create", "pods/eviction", "ns", "t"), InvariantMayMove, "policy of its task is Never"},
		"the scheduler evicts an incomplete gang that must stay": {new(builder).task(neverGang).pod(first, with(first, evicted)).request(UserScheduler, "create", "pods/eviction", "ns", first.Name), "", ""},
		"a Pod has ended before it was evicted":                  {new(builder).task(task).plan(done).plan(skipped).mark(end...), "", ""},
		"a task is moved more often than it allows":              {new(builder).task(once).pod(pod).node(reserved).plan(done).plan(again).pod(with(pod, evicted)), InvariantMayMove, "this is move 2 of its task"},
		"a move is counted":                                      {new(builder).task(task).plan(done).task(moved).mark(end...), "", ""},
		"a move is not counted":                                  {new(builder).task(task).plan(done).mark(end...), InvariantMovesCounted, "status.moves is 0, and its Pods were evicted in 1 turns of plans"},
		"a move is counted that has not taken place":             {new(builder).task(task).task(moved).mark(end...), InvariantMovesCounted, "status.moves is 1, and its Pods were evicted in 0 turns"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.want == "" {
				test.history.mustFindNothing(t)
				return
			}
			test.history.mustFind(t, test.invariant, test.want)
		})
	}
}

func TestPodDisruptionBudgets(t *testing.T) {
	t.Parallel()
	task := newTask("t")
	pod := newPod("t", task)
	pod.Labels[LabelGuarded] = "true"
	unstarted := with(pod, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending })
	leaving := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", DeletionTimestamp: &metav1.Time{Time: begin}}}
	tests := cases{
		"a Pod that must stay is preempted":                 {new(builder).task(task).pod(pod, with(pod, preempted)), "is stopped (PreemptionByScheduler)"},
		"a Pod that must stay is evicted":                   {new(builder).task(task).pod(pod, with(pod, evicted)), "is stopped (EvictionByEvictionAPI)"},
		"a Pod that must stay has not started":              {new(builder).task(task).pod(unstarted, with(unstarted, preempted)), ""},
		"a Pod that may leave is preempted":                 {new(builder).task(task).pod(newPod("t", task), with(newPod("t", task), preempted)), ""},
		"the Pod of a namespace that is deleted is evicted": {new(builder).task(task).namespace(leaving).pod(pod, with(pod, preempted)), ""},
	}
	tests.check(t, InvariantGuarded)
}

func TestTheBudgetOfMoves(t *testing.T) {
	t.Parallel()
	config := Default()
	config.MovesPerHour = 1
	plan := &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-of-p"}, Status: v1.MovePlanStatus{Phase: v1.PlanDone}}
	for i, after := range []time.Duration{0, 59 * time.Minute} {
		plan.Spec.Moves = append(plan.Spec.Moves, v1.Move{PodUID: newPod(string(rune('a'+i)), nil).UID})
		plan.Status.Moves = append(plan.Status.Moves, v1.MoveStatus{State: v1.MoveMoved, EvictedAt: &metav1.Time{Time: begin.Add(after)}})
	}
	found := All(config, new(builder).plan(plan).entries)
	if len(found) != 1 || found[0].Invariant != InvariantBudget {
		t.Errorf("two moves within an hour, one is allowed: found %s", describeAll(found))
	}
	plan.Status.Moves[1].EvictedAt = &metav1.Time{Time: begin.Add(time.Hour)}
	if found := All(config, new(builder).plan(plan).entries); len(found) > 0 {
		t.Errorf("an hour between them: found %s", describeAll(found))
	}
	plan.Status.Moves = plan.Status.Moves[:1]
	other := plan.DeepCopy()
	other.Name, other.UID = "q", "uid-of-q"
	other.Status.Moves[0].EvictedAt = &metav1.Time{Time: begin.Add(time.Minute)}
	forgotten := new(builder).plan(plan).add(history.Entry{Fault: &history.Fault{Number: 1, Kind: FaultCRD, Target: crdPlans}}).planGone(plan).plan(other)
	if found := All(config, forgotten.entries); len(found) > 0 {
		t.Errorf("the plan of one of them was deleted with its CRD: found %s", describeAll(found))
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	waiting := func(phase v1.GPUTaskPhase, message string) *v1.GPUTask {
		return taskWith(newTask("t"), func(task *v1.GPUTask) { task.Status.Phase, task.Status.Message = phase, message })
	}
	pod := with(newPod("t", newTask("t")), unbound)
	refused := with(pod, func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "needs 9 GPUs"}}
	})
	stuck := with(newPod("t", newTask("t")), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending })
	history := func(task *v1.GPUTask, pod *corev1.Pod) *builder {
		b := new(builder).task(task)
		if pod != nil {
			b.pod(pod)
		}
		for range 50 {
			b.wait(time.Second).node(newNode("n"))
		}
		return b
	}
	tests := map[string]struct {
		task *v1.GPUTask
		pod  *corev1.Pod
		want string
	}{
		"the task says why":                       {waiting(v1.PhasePending, "needs 9 GPUs"), refused, ""},
		"the task has no status":                  {waiting("", ""), nil, "the task has no status"},
		"the task has no message":                 {waiting(v1.PhaseWaiting, ""), nil, "has no message"},
		"neither task nor scheduler say why":      {waiting(v1.PhasePending, "waiting to start"), pod, "the scheduler says nothing about Pod t"},
		"the task does not say what its Pod says": {waiting(v1.PhasePending, "waiting to start"), refused, "not what the scheduler says"},
		"its Pods start":                          {waiting(v1.PhasePending, "waiting to start"), newPod("t", newTask("t")), ""},
		"its Pod is stuck on its node":            {waiting(v1.PhasePending, "waiting to start"), stuck, "not what Pod t waits for on node n"},
		"the task says what its Pod is stuck in":  {waiting(v1.PhasePending, "waiting to start: Pod t on node n (ContainerCreating)"), stuck, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.want == "" {
				history(test.task, test.pod).mustFindNothing(t)
				return
			}
			history(test.task, test.pod).mustFind(t, InvariantWaits, test.want)
		})
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	task := newTask("t")
	pod := newPod("t", task)
	reserved := newNode("n")
	reserved.Annotations[reservation.Annotation] = `[{"plan":"p","pod":"ns/t","kind":"Move","until":"2026-01-01T00:10:00Z"}]`
	tainted := newNode("n")
	tainted.Spec.Taints = []corev1.Taint{{Key: v1.TaintGPUUnhealthy, Value: v1.GPUsDegraded, Effect: corev1.TaintEffectNoSchedule}}
	tainted.Labels[v1.LabelGPUHealth] = v1.GPUsHealthy
	degraded := tainted.DeepCopy()
	degraded.Labels[v1.LabelGPUHealth] = v1.GPUsDegraded
	executing := &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-of-p"}, Status: v1.MovePlanStatus{Phase: v1.PlanExecuting}}
	end := []history.Mark{history.LoadEnds, history.Converged, history.End}
	late := Default().Converge + time.Second
	tests := cases{
		"a reservation":                    {new(builder).node(reserved).mark(end...), "places are still reserved on the node"},
		"a reservation before the end":     {new(builder).node(reserved).node(newNode("n")).mark(end...), ""},
		"the taint of a healthy node":      {new(builder).node(tainted).mark(end...), "and its GPUs are healthy"},
		"the taint of a node that is not":  {new(builder).node(degraded).mark(end...), ""},
		"a plan that is being carried out": {new(builder).plan(executing).mark(end...), "the plan is still Executing"},
		"a plan that never ends":           {new(builder).plan(executing).mark(history.LoadEnds).wait(late).mark(history.End), "the plan is still Executing"},
		"a Pod of a deleted task":          {new(builder).task(task).pod(pod).intent("delete").taskGone(task).mark(end...), "its task is gone"},
	}
	tests.check(t, InvariantLeftovers)
}

func TestConvergence(t *testing.T) {
	t.Parallel()
	pending := taskWith(newTask("t"), func(task *v1.GPUTask) {
		task.Status.Phase, task.Status.Message = v1.PhasePending, "needs more"
	})
	marked := func(label string) *v1.GPUTask {
		return taskWith(pending, func(task *v1.GPUTask) { task.Labels[label] = "true" })
	}
	late := Default().Converge + time.Second
	waiting := taskWith(newTask("t"), func(task *v1.GPUTask) {
		task.Spec.DependsOn = []v1.Dependency{{Name: "other"}}
		task.Status.Phase, task.Status.Message = v1.PhaseWaiting, "waiting for GPUTask \"other\" to succeed"
	})
	other := func(phase v1.GPUTaskPhase) *v1.GPUTask {
		return taskWith(newTask("other"), func(task *v1.GPUTask) {
			task.Status.Phase, task.Status.Message, task.Spec.Suspend = phase, "so it is", new(phase == v1.PhaseSuspended)
		})
	}
	tests := cases{
		"a task never ends":                    {new(builder).task(pending).mark(history.LoadEnds).wait(late).mark(history.End), "the task is Pending: needs more"},
		"the campaign was stopped before":      {new(builder).task(pending).mark(history.LoadEnds, history.End), ""},
		"a task that can't start need not end": {new(builder).task(marked(LabelInfeasible)).mark(history.LoadEnds).wait(late).mark(history.End), ""},
		"a task whose dependencies have ended": {new(builder).task(other(v1.PhaseFailed)).task(waiting).mark(history.LoadEnds).wait(late).mark(history.End), "the task is Waiting"},
		"a task whose dependency is missing":   {new(builder).task(waiting).mark(history.LoadEnds).wait(late).mark(history.End), ""},
		"a task whose dependency waits":        {new(builder).task(other(v1.PhaseSuspended)).task(waiting).mark(history.LoadEnds).wait(late).mark(history.End), ""},
		"a task of the flood need not end":     {new(builder).task(marked(LabelFuzzed)).mark(history.LoadEnds).wait(late).mark(history.End), ""},
	}
	tests.check(t, InvariantConvergence)
}

func TestPodsFollowTheirTask(t *testing.T) {
	t.Parallel()
	revision := func(task *v1.GPUTask, generation int64, class, queue, image string) *v1.GPUTask {
		return taskWith(task, func(task *v1.GPUTask) {
			task.Generation = generation
			task.Spec.Priority, task.Spec.Queue = class, queue
			task.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1.ContainerName, Image: image}}}}
		})
	}
	before := revision(newTask("t"), 1, "low", "q", "a:1")
	suspended := taskWith(revision(newTask("t"), 2, "low", "q", "a:1"), func(task *v1.GPUTask) { task.Spec.Suspend = new(true) })
	pod := with(newPod("t", before), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Name, pod.Spec.Containers[0].Image = v1.ContainerName, "a:1"
		pod.Spec.PriorityClassName, pod.Labels[v1.LabelQueue] = "low", "q"
	})
	long := Default().Follow + time.Second
	start := func() *builder { return new(builder).task(before).pod(pod).wait(long) }
	then := func(task *v1.GPUTask) *builder { return start().task(suspended).task(task).wait(long).pod(pod) }
	revised := revision(newTask("t"), 3, "low", "q", "a:1")
	revised.Spec.Template.Labels = map[string]string{LabelRevision: "1"}
	tests := cases{
		"nothing changes":                 {start().pod(pod), ""},
		"the image changes":               {then(revision(newTask("t"), 3, "low", "q", "a:2")), `the Pod has the image "a:1", and its task asks for "a:2"`},
		"the class changes":               {then(revision(newTask("t"), 3, "high", "q", "a:1")), `the class "low", and its task asks for "high"`},
		"the queue changes":               {then(revision(newTask("t"), 3, "low", "", "a:1")), `the queue "q", and its task asks for ""`},
		"the revision changes":            {then(revised), `the revision "", and its task asks for "1"`},
		"nothing but the suspension":      {then(revision(newTask("t"), 3, "low", "q", "a:1")), ""},
		"it is suspended, and nothing":    {start().task(suspended).wait(long).pod(pod), "the task is suspended, and the Pod is there"},
		"it has just changed":             {start().task(suspended).task(revision(newTask("t"), 3, "low", "q", "a:2")).wait(5 * time.Second).pod(pod), ""},
		"the Pod is being deleted":        {start().task(suspended).pod(with(pod, deleting)).intent("suspend").wait(long).mark(history.LoadEnds), ""},
		"the Pod has ended before":        {start().pod(with(pod, hasSucceeded)).task(suspended).wait(long).mark(history.LoadEnds), ""},
		"the Pod is replaced as it is to": {start().task(suspended).intent("suspend").podGone(pod).task(revision(newTask("t"), 3, "high", "q", "a:1")).pod(with(pod, func(pod *corev1.Pod) { another("again")(pod); pod.Spec.PriorityClassName = "high" })).wait(long).mark(history.LoadEnds), ""},
	}
	tests.check(t, InvariantCurrent)
}

func TestWhatCanStartIsStarted(t *testing.T) {
	t.Parallel()
	open := newNode("n", "A", "B")
	open.Status.Allocatable = corev1.ResourceList{v1.ResourceGPU: resource.MustParse("2")}
	closed := func(change func(*corev1.Node)) *corev1.Node {
		node := open.DeepCopy()
		change(node)
		return node
	}
	cordoned := closed(func(node *corev1.Node) { node.Spec.Unschedulable = true })
	tainted := closed(func(node *corev1.Node) {
		node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	})
	empty := closed(func(node *corev1.Node) { node.Status.Allocatable = nil })
	probe := with(newPod("p", nil, "A", "B"), func(pod *corev1.Pod) {
		pod.Labels[LabelProbe] = "true"
		pod.Annotations = nil
		unbound(pod)
	})
	selecting := with(probe, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"ready": "yes"} })
	gang := with(probe, func(pod *corev1.Pod) { pod.Labels[v1.LabelPodGroup], pod.Labels[v1.LabelMinAvailable] = "g", "2" })
	plain := with(probe, func(pod *corev1.Pod) { delete(pod.Labels, LabelProbe) })
	long := Default().Wake + time.Second
	then := func(node *corev1.Node, pod *corev1.Pod) *builder {
		return new(builder).node(node).pod(pod).wait(time.Minute).node(node)
	}
	tests := cases{
		"its node is open":                       {then(open, probe), "the Pod has fitted on node n for 1m1s, and has no node"},
		"its node is cordoned":                   {then(cordoned, probe), ""},
		"its node is tainted":                    {then(tainted, probe), ""},
		"its node has no GPUs":                   {then(empty, probe), ""},
		"its node lacks a label":                 {then(open, selecting), ""},
		"its node has no room for the gang":      {then(open, gang), ""},
		"another Pod holds a GPU":                {new(builder).node(open).pod(newPod("a", nil, "A"), probe).wait(long).node(open), ""},
		"it is no probe":                         {then(open, plain), ""},
		"its node is uncordoned":                 {then(cordoned, probe).node(open).wait(long).node(open), "has fitted on node n for 12s"},
		"its node was uncordoned just now":       {then(cordoned, probe).node(open).wait(5 * time.Second).node(open), ""},
		"it starts":                              {then(cordoned, probe).node(open).pod(newPod("p", nil, "A", "B")).wait(long).node(open), ""},
		"faults are injected while it can start": {new(builder).node(open).add(history.Entry{Fault: &history.Fault{Number: 1, Kind: FaultPause}}).pod(probe).wait(long).node(open), ""},
	}
	tests.check(t, InvariantWoken)
}

func TestWhatDoesNotStartGivesBack(t *testing.T) {
	t.Parallel()
	patient := newTask("t")
	task := taskWith(patient, func(task *v1.GPUTask) { task.Spec.StartTimeoutSeconds = new(int32(5)) })
	running := newPod("t", task)
	stuck := with(running, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending })
	long := 5*time.Second + Default().GiveBack
	start := func(task *v1.GPUTask) *builder { return new(builder).task(task).pod(stuck) }
	tests := cases{
		"it stays":                      {start(task).wait(long).pod(stuck), "has had node n for 26s without starting; startTimeoutSeconds of its task is 5"},
		"its task allows it":            {start(patient).wait(long).pod(stuck), ""},
		"it has just got its node":      {start(task).pod(stuck), ""},
		"it starts":                     {start(task).pod(running).wait(long).pod(running), ""},
		"it is deleted":                 {start(task).pod(with(stuck, deleting)).podGone(stuck).wait(long).task(task), ""},
		"it has no node":                {new(builder).task(task).pod(with(running, unbound)).wait(long).pod(with(running, unbound)), ""},
		"faults are injected meanwhile": {start(task).add(history.Entry{Fault: &history.Fault{Number: 1, Kind: FaultPause}}).wait(long).pod(stuck), ""},
	}
	tests.check(t, InvariantStarts)
}

func TestTasksThatDisappear(t *testing.T) {
	t.Parallel()
	task := newTask("t")
	finished := taskWith(task, func(task *v1.GPUTask) {
		ttl := int32(5)
		task.Spec.TTLSecondsAfterFinished, task.Status.CompletionTime = &ttl, &metav1.Time{Time: begin}
	})
	new(builder).task(task).taskGone(task).mustFind(t, InvariantLost, "nobody has deleted it")
	new(builder).task(task).intent("delete").taskGone(task).mustFindNothing(t)
	new(builder).task(finished).taskGone(finished).mustFindNothing(t)
	leaving := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", DeletionTimestamp: &metav1.Time{Time: begin}}}
	again := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	new(builder).task(task).namespace(leaving).taskGone(task).mustFindNothing(t)
	new(builder).task(task).namespace(leaving).namespace(again).taskGone(task).mustFind(t, InvariantLost, "nobody has deleted it")
}

func TestAgentsThatHaveNothingToSay(t *testing.T) {
	t.Parallel()
	quiet := func() *builder { return new(builder).mark(history.Converged).wait(agentGrace) }
	new(builder).request(UserAgent, "patch", "nodes", "", "n").mark(history.Converged).mustFindNothing(t)
	quiet().request(UserController, "patch", "nodes", "", "n").mustFindNothing(t)
	quiet().request(UserAgent, "patch", "nodes", "", "n").mustFind(t, InvariantAgents, "an agent has sent: patch nodes n")
}

func TestProcessesThatEnd(t *testing.T) {
	t.Parallel()
	new(builder).fault(FaultKill, "gpu-scheduler").exit("gpu-scheduler", "signal: killed").mustFindNothing(t)
	new(builder).exit("gpu-scheduler", "signal: killed").mustFind(t, InvariantProcesses, "by something else than the campaign")
	new(builder).fault(FaultKill, "gpu-scheduler").exit("gpu-controller", "exit status 2").mustFind(t, InvariantProcesses, "has ended by itself: exit status 2")
	new(builder).exit("kube-apiserver", "exit status 1").mustFindNothing(t)
}
