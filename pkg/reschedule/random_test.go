// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

// randomCluster returns a crowded cluster, and one to three tasks that wait.
func randomCluster(tb testing.TB, rng *rand.Rand, amounts ...string) *cluster {
	tb.Helper()
	c := newCluster(tb)
	nodes := 2 + rng.IntN(3)
	for i := range nodes {
		c.node(fmt.Sprintf("n%d", i), 2+rng.IntN(3), inLeaf(fmt.Sprintf("leaf%d", i%2)))
	}
	for i := range 3 + rng.IntN(4) {
		name := fmt.Sprintf("t%d", i)
		amount := amounts[rng.IntN(len(amounts))]
		var places []string
		for range 1 + rng.IntN(4)/3 {
			if at := c.anyPlace(rng, amount, places); at != "" {
				places = append(places, at)
			}
		}
		if len(places) > 0 {
			c.run(name, amount, places...)
		}
	}
	return c
}

// anyPlace returns a random node with room for an amount beside places that were
// chosen but not taken yet.
func (c *cluster) anyPlace(rng *rand.Rand, amount string, chosen []string) string {
	cards, percent := count(c, amount)
	for _, i := range rng.Perm(len(c.Nodes)) {
		name := c.Nodes[i].Name
		wanted := cards
		for _, other := range chosen {
			if other == name {
				wanted += cards
			}
		}
		for _, free := range c.free[name] {
			if free >= percent {
				wanted--
			}
		}
		if wanted <= 0 {
			return name
		}
	}
	return ""
}

func TestNoFewerMovesWouldDo(t *testing.T) {
	t.Parallel()
	helped, worse := 0, 0
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 6))
		c := randomCluster(t, rng, "1", "1", "2", "3")
		c.wait("waiting", fmt.Sprint(1+rng.IntN(4)), 1+rng.IntN(2))
		for i := range c.Tasks { // no work is lost: only the number of moves counts
			c.Tasks[i].Annotations = map[string]string{v1.AnnotationLastCheckpoint: now.Format(time.RFC3339)}
		}
		fewest := newBruteForce(c).fewest()
		plan, _ := Propose(&c.Objects, &c.options)
		if plan != nil && plan.Spec.Goal != v1.GoalPendingTask {
			plan = nil
		}
		switch {
		case fewest == 0:
			if plan != nil {
				t.Errorf("seed %d: the task fits, and %v", seed, movesText(plan))
			}
		case plan == nil && fewest < math.MaxInt:
			t.Errorf("seed %d: %d moves would do, and none are found", seed, fewest)
		case plan == nil:
		default:
			helped++
			if len(plan.Spec.Moves) < fewest {
				t.Errorf("seed %d: %v are fewer than %d, so the test is wrong", seed, movesText(plan), fewest)
			}
			if len(plan.Spec.Moves) > fewest {
				worse++
				t.Logf("seed %d: %d moves would do: %v", seed, fewest, movesText(plan))
			}
		}
	}
	t.Logf("%d tasks were helped, %d of them with more moves than needed", helped, worse)
	if helped < 50 || worse*100 > helped {
		t.Errorf("of %d tasks that were helped %d took more moves than needed", helped, worse)
	}
}

// bruteForce tries all moves to all places. It counts whole GPUs only.
type bruteForce struct {
	free  []int
	units [][]int // the nodes of each task's Pods
	size  []int
	pods  int
	each  int
}

func newBruteForce(c *cluster) *bruteForce {
	b := &bruteForce{}
	index := map[string]int{}
	for i, n := range c.Nodes {
		index[n.Name] = i
		free := 0
		for _, percent := range c.free[n.Name] {
			free += percent / 100
		}
		b.free = append(b.free, free)
	}
	for i := range c.Tasks {
		task := &c.Tasks[i]
		cards, _ := count(c, task.Spec.GPUAmount)
		if task.Status.Phase != v1.PhaseRunning {
			b.pods, b.each = len(task.Pods), cards
			continue
		}
		var nodes []int
		for _, pod := range task.Pods {
			nodes = append(nodes, index[pod.Spec.NodeName])
		}
		b.units, b.size = append(b.units, nodes), append(b.size, cards)
	}
	return b
}

// fewest returns how many Pods have to move until the waiting task fits; MaxInt if it never
// does. No task moves twice.
func (b *bruteForce) fewest() int {
	type state struct {
		free  string
		moved int
	}
	best := map[state]int{}
	fewest := math.MaxInt
	var visit func(moved, pods int)
	visit = func(moved, pods int) {
		key := state{fmt.Sprint(b.free), moved}
		if known, seen := best[key]; pods >= fewest || (seen && known <= pods) {
			return
		}
		best[key] = pods
		if b.fits() {
			fewest = pods
			return
		}
		for u := range b.units {
			if moved>>u&1 == 1 {
				continue
			}
			for _, node := range b.units[u] {
				b.free[node] += b.size[u]
			}
			b.everywhere(u, 0, func() { visit(moved|1<<u, pods+len(b.units[u])) })
			for _, node := range b.units[u] {
				b.free[node] -= b.size[u]
			}
		}
	}
	visit(0, 0)
	return fewest
}

func (b *bruteForce) everywhere(u, pod int, then func()) {
	if pod == len(b.units[u]) {
		then()
		return
	}
	for node := range b.free {
		if b.free[node] >= b.size[u] {
			b.free[node] -= b.size[u]
			b.everywhere(u, pod+1, then)
			b.free[node] += b.size[u]
		}
	}
}

func (b *bruteForce) fits() bool {
	room := 0
	for _, free := range b.free {
		room += free / b.each
	}
	return room >= b.pods
}

func TestWhateverIsProposedCanBeCarriedOutAndKeepsAllLimits(t *testing.T) {
	t.Parallel()
	proposed := map[v1.MovePlanGoal]int{}
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 7))
		c := randomCluster(t, rng, "0.30", "0.50", "1", "1", "2", "3")
		c.disturb(rng)
		plan, report := Propose(&c.Objects, &c.options)
		if plan == nil {
			if report.Why == "" {
				t.Errorf("seed %d: nothing is proposed, and nobody says why", seed)
			}
			continue
		}
		proposed[plan.Spec.Goal]++
		name := fmt.Sprintf("seed %d: %s %v", seed, plan.Spec.Goal, movesText(plan))
		c.checkLimits(name, plan)
		if plan.Spec.Goal == v1.GoalRecreate {
			continue
		}
		if err := Valid(c.planner(), plan, 0); err != nil {
			t.Errorf("%s: not valid: %v", name, err)
		}
		before := c.whole()
		c.carry(plan)
		if after := c.whole(); plan.Spec.Goal == v1.GoalCapacity && after-before != int(plan.Spec.Gain.GPUs) {
			t.Errorf("%s: gives back %d GPUs, said are %d", name, after-before, plan.Spec.Gain.GPUs)
		}
	}
	t.Logf("proposed: %v", proposed)
	if proposed[v1.GoalPendingTask] < 40 || proposed[v1.GoalCapacity] < 40 || proposed[v1.GoalRecreate] < 40 {
		t.Errorf("too little is tried: %v", proposed)
	}
}

// disturb makes planning harder.
func (c *cluster) disturb(rng *rand.Rand) {
	for i := range c.Tasks {
		task := &c.Tasks[i]
		switch rng.IntN(8) {
		case 0:
			rescheduling(func(r *v1.Rescheduling) { r.Policy = v1.ReschedulingNever })(task)
		case 1:
			budget := disruptionBudget(int32(rng.IntN(3)), map[string]string{v1.LabelTask: task.Name})
			budget.Name = task.Name
			c.Budgets = append(c.Budgets, budget)
		case 2:
			task.Pods[0].Spec.Priority = new(int32(rng.IntN(30)))
		default:
			task.Annotations = map[string]string{v1.AnnotationLastCheckpoint: now.Add(-time.Duration(rng.IntN(60)) * time.Second).Format(time.RFC3339)}
		}
	}
	switch rng.IntN(3) {
	case 0:
		c.options.Mode = Recreate
	case 1:
		for i := range 1 + rng.IntN(3) {
			c.wait(fmt.Sprintf("w%d", i), fmt.Sprint(1+rng.IntN(3)), 1+rng.IntN(2)).Pods[0].Spec.Priority = new(int32(rng.IntN(20)))
		}
	}
	c.options.MinGain = float64(rng.IntN(2))
	c.options.MaxMoves = rng.IntN(5)
	if rng.IntN(2) == 0 {
		c.options.MovesPerHour = 1 + rng.IntN(5)
		c.Plans = append(c.Plans, spent(rng.IntN(2), time.Minute, 60))
	}
	if rng.IntN(2) == 0 {
		c.options.GPUMinutesPerHour = int64(1 + rng.IntN(40))
	}
}

// checkLimits checks a plan against all limits, computed independently.
func (c *cluster) checkLimits(name string, plan *v1.MovePlan) {
	c.Helper()
	moved := map[string][]v1.Move{}
	lost := int64(0)
	for i := range plan.Spec.Moves {
		move := plan.Spec.Moves[i]
		moved[move.Task.Name] = append(moved[move.Task.Name], move)
		lost += move.LostGPUSeconds
	}
	for _, task := range slices.Sorted(maps.Keys(moved)) {
		c.checkTask(name, c.task(task), moved[task], c.priorityOf(plan))
	}
	ledger := NewLedger(c.Plans, now)
	moves := len(plan.Spec.Moves)
	if (c.options.MaxMoves > 0 && moves > c.options.MaxMoves) || moves+ledger.Moves > c.options.MovesPerHour {
		c.Errorf("%s: too many moves", name)
	}
	if lost+ledger.LostGPUSeconds["default"] > c.options.GPUMinutesPerHour*60 {
		c.Errorf("%s: too much work is lost: %d", name, lost)
	}
}

// priorityOf is the priority for which a plan is.
func (c *cluster) priorityOf(plan *v1.MovePlan) int32 {
	if plan.Spec.For == nil {
		return AnyPriority
	}
	priority := int32(0)
	for _, pod := range c.task(plan.Spec.For.Name).Pods {
		priority = max(priority, schedulingv1.PodPriority(pod))
	}
	return priority
}

// checkTask checks that a task may be moved for somebody of a priority, and moves as
// a whole.
func (c *cluster) checkTask(name string, task *clusterview.Task, moves []v1.Move, priority int32) {
	c.Helper()
	if task.Spec.Rescheduling != nil || task.Status.Phase != v1.PhaseRunning {
		c.Errorf("%s: %s may not be moved", name, task.Name)
	}
	if len(moves) != len(task.Pods) {
		c.Errorf("%s: gang %s is split", name, task.Name)
	}
	for i := range moves {
		if moves[i].Turn != moves[0].Turn {
			c.Errorf("%s: gang %s moves in several turns", name, task.Name)
		}
	}
	for _, pod := range task.Pods {
		if schedulingv1.PodPriority(pod) > priority {
			c.Errorf("%s: %s has a higher priority", name, task.Name)
		}
	}
	for _, budget := range c.Budgets {
		if budget.Spec.Selector.MatchLabels[v1.LabelTask] == task.Name && int(budget.Status.DisruptionsAllowed) < len(moves) {
			c.Errorf("%s: a PodDisruptionBudget keeps %s", name, task.Name)
		}
	}
}

// whole counts the GPUs of which all is free.
func (c *cluster) whole() int {
	sum := 0
	for _, free := range c.free {
		for _, percent := range free {
			sum += percent / 100
		}
	}
	return sum
}

// What a plan for capacity gains is never given up by the next one, so that they come to an
// end, even without a cooldown.
func TestPlansForCapacityComeToAnEnd(t *testing.T) {
	t.Parallel()
	plans := 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 8))
		c := randomCluster(t, rng, "0.30", "0.50", "1", "2", "3")
		c.savedJustNow()
		c.options.MinGain, c.options.MaxMoves, c.options.Cooldown = 0, 2, 0
		for n := 0; ; n++ {
			plan, _ := Propose(&c.Objects, &c.options)
			if plan == nil {
				break
			}
			if n == 20 {
				t.Errorf("seed %d: there is always one more: %v", seed, movesText(plan))
				break
			}
			c.carry(plan)
			plans++
		}
	}
	if plans < 50 {
		t.Errorf("%d plans are too few", plans)
	}
}
