// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const (
	cardsPerNode = 4
	moveTimeout  = 2 * time.Minute
)

// model is a cluster: an API server that checks preconditions, gpu-controller, which
// recreates Pods, a scheduler that honours reservations, and kubelets. All Pods
// are in the namespace default.
type model struct {
	t       testing.TB
	random  *rand.Rand
	now     time.Time
	version int
	nodes   map[string]*corev1.Node
	tasks   map[string]*v1.GPUTask
	pods    map[string]*corev1.Pod
	budgets map[string]*policyv1.PodDisruptionBudget
	plan    *v1.MovePlan
	// seen is the contents of the process's caches.
	seen *Input
	// tries is the process's memory, which is lost when it dies.
	tries map[types.UID]Try
	// writes counts the requests that change something; the process is killed before
	// the request with the number killAt.
	writes, killAt int
	// kills is how often per thousand the process is killed before a request, stale how
	// often its caches are stale.
	kills, stale int
	// stuck are nodes on which nothing starts or ends; lame is true if nodes were lost.
	stuck map[string]bool
	lame  bool
	// stock is true if the scheduler does not know where Pods are to go.
	stock bool
	// arrived are the Pods that were moved and ran again.
	arrived map[string]bool
	// evicted are the Pods that were evicted, by their UIDs.
	evicted map[types.UID]string
}

func newModel(tb testing.TB, seed uint64) *model {
	tb.Helper()
	return &model{
		t: tb, random: rand.New(rand.NewPCG(seed, 7)), now: testTime, nodes: map[string]*corev1.Node{}, tasks: map[string]*v1.GPUTask{},
		pods: map[string]*corev1.Pod{}, budgets: map[string]*policyv1.PodDisruptionBudget{}, tries: map[types.UID]Try{}, evicted: map[types.UID]string{}, stuck: map[string]bool{}, arrived: map[string]bool{}, killAt: -1,
	}
}

func (m *model) chance(perThousand int) bool { return m.random.IntN(1000) < perThousand }

func (m *model) touch(object metav1.Object) {
	m.version++
	object.SetResourceVersion(fmt.Sprint(m.version))
}

func (m *model) addNode(name string) {
	m.nodes[name] = makeNode(name)
	m.touch(m.nodes[name])
}

// addTask adds a task of so many GPUs per Pod, with a running Pod on each of the
// nodes; "" is a Pod that waits.
func (m *model) addTask(name string, gpus int, nodes ...string) *v1.GPUTask {
	task := makeTask(name, gpus, len(nodes))
	m.tasks[name] = task
	m.touch(task)
	for i, node := range nodes {
		pod := m.createPod(task, i)
		if node != "" {
			pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
		}
	}
	m.report(task)
	return task
}

func (m *model) createPod(task *v1.GPUTask, index int) *corev1.Pod {
	m.t.Helper()
	pod, err := gputask.NewPod(task, index, 0, gputask.PodDefaults{})
	if err != nil {
		m.t.Fatal(err)
	}
	if m.pods[pod.Name] != nil {
		m.t.Fatalf("Pod %s is listed twice", pod.Name)
	}
	m.touch(pod)
	pod.UID = types.UID(pod.Name + "@" + pod.ResourceVersion)
	pod.CreationTimestamp = metav1.NewTime(m.now)
	pod.Status.Phase = corev1.PodPending
	m.pods[pod.Name] = pod
	return pod
}

func (m *model) podsOf(task *v1.GPUTask) []*corev1.Pod {
	var list []*corev1.Pod
	for i := range gputask.Replicas(task) {
		if pod := m.pods[gputask.PodName(task, i)]; pod != nil {
			list = append(list, pod)
		}
	}
	return list
}

// report updates a task's status, as the controller does.
func (m *model) report(task *v1.GPUTask) {
	running, succeeded, all := 0, 0, m.podsOf(task)
	for _, pod := range all {
		switch {
		case runs(pod):
			running++
		case pod.Status.Phase == corev1.PodSucceeded:
			succeeded++
		}
	}
	phase := v1.PhasePending
	switch {
	case succeeded == gputask.Replicas(task):
		phase = v1.PhaseSucceeded
	case gputask.SuspensionRequested(task):
		phase = v1.PhaseSuspended
	case running+succeeded >= gputask.MinAvailable(task):
		phase = v1.PhaseRunning
	}
	if task.Status.Phase != phase {
		task.Status.Phase = phase
		m.touch(task)
	}
}

func gpusOf(pod *corev1.Pod) int {
	shape, err := snapshot.Shape(pod)
	if err != nil {
		return 0
	}
	return shape.GPUs
}

// used returns how many cards of a node are in use.
func (m *model) used(node string) int {
	used := 0
	for _, pod := range m.pods {
		if pod.Spec.NodeName == node && !podfacts.Ended(pod) {
			used += gpusOf(pod)
		}
	}
	return used
}

func (m *model) reservations(node *corev1.Node) []reservation.Reservation {
	list, err := reservation.Of(node)
	if err != nil {
		m.t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(r reservation.Reservation) bool { return !r.Holds(m.now) })
}

// fits reports whether a Pod may go to a node beside what is there and reserved for
// others.
func (m *model) fits(pod *corev1.Pod, node *corev1.Node) bool {
	taken := m.used(node.Name)
	key := reservation.PodKey(pod.Namespace, pod.Name)
	for _, r := range m.reservations(node) {
		other := m.pods[r.Pod[len("default/"):]]
		switch {
		case r.Pod == key && r.Kind == reservation.Move:
			return !node.Spec.Unschedulable && m.used(node.Name)+gpusOf(pod) <= cardsPerNode
		case r.Pod == key, other != nil && other.Spec.NodeName == node.Name && other.DeletionTimestamp == nil && !m.stillLeaves(other):
		default:
			taken += r.Cards
		}
	}
	return !node.Spec.Unschedulable && taken+gpusOf(pod) <= cardsPerNode
}

// stillLeaves reports whether a Pod that the plan moves has not been moved yet.
func (m *model) stillLeaves(pod *corev1.Pod) bool {
	for i := range m.plan.Spec.Moves {
		if m.plan.Spec.Moves[i].PodUID == pod.UID {
			return true
		}
	}
	return false
}

// movesTo returns the usable node to which a reservation binds a Pod.
func (m *model) movesTo(pod *corev1.Pod) string {
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		for _, r := range m.reservations(m.nodes[name]) {
			if r.Pod == reservation.PodKey(pod.Namespace, pod.Name) && r.Kind == reservation.Move && !m.nodes[name].Spec.Unschedulable {
				return name
			}
		}
	}
	return ""
}

// schedule finds nodes for a task's Pods: for all of them, or for those that are
// missing in a gang that runs.
func (m *model) schedule(task *v1.GPUTask) {
	var bound []*corev1.Pod
	placed := 0
	for _, pod := range m.podsOf(task) {
		if pod.Spec.NodeName != "" {
			placed++
			continue
		}
		if name := m.place(pod); name != "" {
			pod.Spec.NodeName = name
			bound = append(bound, pod)
			placed++
		}
	}
	if placed < gputask.MinAvailable(task) && placed == len(bound) && len(bound) < gputask.Replicas(task) && !m.moving(task) {
		for _, pod := range bound {
			pod.Spec.NodeName = ""
		}
		return
	}
	for _, pod := range bound {
		m.touch(pod)
	}
}

func (m *model) moving(task *v1.GPUTask) bool {
	for _, pod := range m.podsOf(task) {
		if m.movesTo(pod) != "" {
			return true
		}
	}
	return false
}

func (m *model) place(pod *corev1.Pod) string {
	if to := m.movesTo(pod); to != "" && !m.stock {
		if m.fits(pod, m.nodes[to]) {
			return to
		}
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		if m.fits(pod, m.nodes[name]) {
			return name
		}
	}
	return ""
}

// live simulates everything but the rescheduler for a while.
func (m *model) live() {
	m.now = m.now.Add(time.Duration(1+m.random.IntN(10)) * time.Second)
	for _, name := range slices.Sorted(maps.Keys(m.pods)) {
		pod := m.pods[name]
		switch {
		case m.stuck[pod.Spec.NodeName]:
		case pod.DeletionTimestamp != nil && m.chance(700):
			delete(m.pods, name)
		case pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending && m.chance(800):
			pod.Status.Phase, m.arrived[name] = corev1.PodRunning, true
			m.touch(pod)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.tasks)) {
		task := m.tasks[name]
		if !gputask.IsFinished(task) && !gputask.SuspensionRequested(task) {
			m.replace(task)
		}
		if m.chance(800) {
			m.schedule(task)
		}
		m.report(task)
	}
	for _, budget := range m.budgets {
		m.allow(budget)
	}
}

func (m *model) replace(task *v1.GPUTask) {
	for i := range gputask.Replicas(task) {
		if m.pods[gputask.PodName(task, i)] == nil {
			m.createPod(task, i)
		}
	}
}

// allow simulates the disruption controller.
func (m *model) allow(budget *policyv1.PodDisruptionBudget) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		m.t.Fatal(err)
	}
	healthy, all := int32(0), int32(0)
	for _, pod := range m.pods {
		if selector.Matches(labels.Set(pod.Labels)) {
			all++
			if runs(pod) {
				healthy++
			}
		}
	}
	limit := int32(budget.Spec.MaxUnavailable.IntValue())
	budget.Status.DisruptionsAllowed = max(0, limit-(all-healthy))
}

// input returns what the process observes.
func (m *model) input() *Input {
	if m.seen != nil && m.chance(m.stale) {
		return m.seen
	}
	w := &clusterview.Objects{}
	for _, name := range slices.Sorted(maps.Keys(m.tasks)) {
		task := clusterview.Task{GPUTask: m.tasks[name].DeepCopy()}
		for _, pod := range m.podsOf(task.GPUTask) {
			task.Pods = append(task.Pods, pod.DeepCopy())
		}
		w.Tasks = append(w.Tasks, task)
	}
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		w.Nodes = append(w.Nodes, m.nodes[name].DeepCopy())
	}
	for _, name := range slices.Sorted(maps.Keys(m.budgets)) {
		w.Budgets = append(w.Budgets, m.budgets[name].DeepCopy())
	}
	plan := m.plan.DeepCopy()
	w.Plans = []*v1.MovePlan{plan}
	m.seen = &Input{Plan: plan, Objects: w, MoveTimeout: moveTimeout}
	return m.seen
}

// step takes a step, and checks the rest of the plan if it depends on that.
func (m *model) step(in *Input) (Output, error) {
	out, err := Step(*in)
	if err != nil || out.CheckDrift == nil {
		return out, err
	}
	checked := *in
	checked.Drift = &Drift{Why: m.drift(out.CheckDrift)}
	return Step(checked)
}

// drift checks the rest of a plan as the planner does: each Pod is where it was and finds
// room when its turn comes.
func (m *model) drift(rest *v1.MovePlan) string {
	free := map[string]int{}
	for name, node := range m.nodes {
		if free[name] = cardsPerNode - m.used(name); node.Spec.Unschedulable {
			free[name] = 0
		}
	}
	moves := rest.Spec.Moves
	for from := 0; from < len(moves); {
		to := from
		for ; to < len(moves) && moves[to].Turn == moves[from].Turn; to++ {
			pod := m.pods[moves[to].Pod]
			if pod == nil || pod.UID != moves[to].PodUID || pod.Spec.NodeName != moves[to].From.Node {
				return "Pod " + moves[to].Pod + " is not where it was"
			}
			free[moves[to].From.Node] += gpusOf(pod)
		}
		for ; from < to; from++ {
			target := moves[from].To.Node
			if target == "" {
				continue
			}
			if free[target] -= gpusOf(m.pods[moves[from].Pod]); free[target] < 0 || m.nodes[target].Spec.Unschedulable {
				return "node " + target + " has no room"
			}
		}
	}
	return ""
}

// killed decides at random whether the process dies before its next request.
func (m *model) killed() bool {
	m.writes++
	if m.writes-1 == m.killAt || m.chance(m.kills) {
		m.tries, m.seen = map[types.UID]Try{}, nil
		return true
	}
	return false
}

// process makes one pass of the rescheduler.
func (m *model) process() {
	in := m.input()
	in.Objects.Now, in.Tries = m.now, m.tries
	changes, err := Reservations(in.Objects, "", moveTimeout)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, change := range changes {
		if m.killed() {
			return
		}
		m.annotate(change)
	}
	out, err := m.step(in)
	if err != nil {
		m.t.Fatal(err)
	}
	if out.Status != nil {
		if len(out.Evict) > 0 {
			m.t.Error("Pods are evicted before it is written down")
		}
		if m.killed() {
			return
		}
		m.record(in.Plan, out.Status)
	}
	for i := range out.Count {
		if m.killed() {
			return
		}
		m.count(&out.Count[i])
	}
	for _, pod := range out.Evict {
		if m.killed() {
			return
		}
		m.evict(pod)
	}
}

func (m *model) annotate(change NodeChange) {
	node := m.nodes[change.Node.Name]
	if node.ResourceVersion != change.Node.ResourceVersion || m.chance(m.kills) {
		return // a conflict, or another error
	}
	node.Annotations[reservation.Annotation] = change.Value
	if change.Value == "" {
		delete(node.Annotations, reservation.Annotation)
	}
	m.touch(node)
}

func (m *model) record(seen *v1.MovePlan, status *v1.MovePlanStatus) {
	if m.plan.ResourceVersion != seen.ResourceVersion {
		return // a conflict
	}
	if Finished(m.plan) {
		m.t.Errorf("a plan that has ended is changed: %+v", status)
	}
	m.plan.Status = *status.DeepCopy()
	m.touch(m.plan)
}

func (m *model) count(count *Count) {
	task := m.tasks[count.Name]
	if task == nil || task.UID != count.UID || count.IsDone(task) {
		return
	}
	task.Status.Moves++
	task.Status.LastMove = &count.Move
	m.touch(task)
}

// evict simulates the Eviction API.
func (m *model) evict(seen *corev1.Pod) {
	pod := m.pods[seen.Name]
	if pod == nil || pod.UID != seen.UID || pod.ResourceVersion != seen.ResourceVersion {
		return // gone, or a conflict
	}
	for _, budget := range m.budgets {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			m.t.Fatal(err)
		}
		if !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if budget.Status.DisruptionsAllowed < 1 {
			m.tries[pod.UID] = Try{At: m.now, Refusal: "Cannot evict pod as it would violate the pod's disruption budget."}
			return
		}
		budget.Status.DisruptionsAllowed--
	}
	m.checkEviction(pod)
	m.evicted[pod.UID] = pod.Name
	m.tries[pod.UID] = Try{At: m.now, Granted: true}
	pod.DeletionTimestamp = &metav1.Time{Time: m.now.Add(30 * time.Second)}
	m.touch(pod)
}

// checkEviction checks an eviction against the guarantees.
func (m *model) checkEviction(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil || podfacts.Ended(pod) {
		m.t.Errorf("Pod %s is evicted although it ends by itself", pod.Name)
	}
	if m.plan.Status.Phase != v1.PlanExecuting || m.plan.Status.Reason != "" {
		m.t.Errorf("Pod %s is evicted in phase %s %s", pod.Name, m.plan.Status.Phase, m.plan.Status.Reason)
	}
	at := slices.IndexFunc(m.plan.Spec.Moves, func(move v1.Move) bool { return move.PodUID == pod.UID })
	if at < 0 {
		m.t.Fatalf("Pod %s is evicted and is not in the plan", pod.Name)
	}
	move := &m.plan.Spec.Moves[at]
	if m.plan.Status.Moves[at].State != v1.MoveEvicted || m.plan.Status.Moves[at].EvictedAt == nil {
		m.t.Errorf("Pod %s is evicted before that is written down", pod.Name)
	}
	if m.plan.Spec.Goal != v1.GoalRecreate && m.movesTo(pod) != move.To.Node && !m.nodes[move.To.Node].Spec.Unschedulable {
		m.t.Errorf("Pod %s is evicted before its place is kept", pod.Name)
	}
	m.checkOthersArrived(pod, move)
}

// checkOthersArrived checks that the Pods of all other turns run again.
func (m *model) checkOthersArrived(pod *corev1.Pod, move *v1.Move) {
	for uid, name := range m.evicted {
		other := m.pods[name]
		if other != nil && m.turnOf(uid) != move.Turn && !stopped(m.taskOf(other)) && !m.arrived[name] {
			m.t.Errorf("Pod %s is evicted while Pod %s of turn %d has no place yet", pod.Name, name, m.turnOf(uid))
		}
	}
}

func (m *model) taskOf(pod *corev1.Pod) *clusterview.Task {
	task := m.tasks[pod.Labels[v1.LabelTask]]
	if task == nil {
		return nil
	}
	return &clusterview.Task{GPUTask: task}
}

func (m *model) turnOf(uid types.UID) int32 {
	for i := range m.plan.Spec.Moves {
		if m.plan.Spec.Moves[i].PodUID == uid {
			return m.plan.Spec.Moves[i].Turn
		}
	}
	return noTurn
}

// run lets time pass until the plan has ended and nothing is reserved any more.
func (m *model) run() {
	m.t.Helper()
	const enough = 3000
	for range enough {
		m.live()
		for range 1 + m.random.IntN(4) {
			m.process()
		}
		if Finished(m.plan) && m.reserved() == 0 {
			m.stale = 0
			return
		}
	}
	m.t.Errorf("the plan has not ended: %+v", m.plan.Status)
}

func (m *model) reserved() int {
	count := 0
	for _, node := range m.nodes {
		if node.Annotations[reservation.Annotation] != "" {
			count++
		}
	}
	return count
}
