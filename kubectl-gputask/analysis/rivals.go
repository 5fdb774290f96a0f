// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"slices"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// Turn says which of two queues is served first.
type Turn string

// The turns of a Rival.
const (
	// Before: its work is served before that of the queue in question.
	Before Turn = "Before"
	// Equal: neither guarantees nor fair share decide between them.
	Equal Turn = "Equal"
	// After: its work is served after that of the queue in question.
	After Turn = "After"
)

// Rival is another queue that has waiting work of its own, beside that of its children.
type Rival struct {
	Name string `json:"name"`
	// Sibling is true if it has the same parent.
	Sibling bool `json:"sibling"`
	// Factor is its fair-share factor: what it has used, over what it was due.
	Factor float64 `json:"factor"`
	// Waiting are the GPUs that its waiting Pods ask for, with those of its children.
	Waiting string `json:"waiting"`
	Turn    Turn   `json:"turn"`
	// Why is the turn in one sentence.
	Why string `json:"why"`
	// TakesBack is true if GPUs that the queue in question has borrowed may be taken back for the rival's next task,
	// and GivesBack if it is the other way round.
	TakesBack bool `json:"takesBack,omitempty"`
	GivesBack bool `json:"givesBack,omitempty"`
}

// rivals returns the other queues that have waiting work of their own: those that are served before a queue, equal
// ones, and those after it.
func (q *Queues) rivals(name string, line *Line) []Rival {
	ledger, parent := q.ledger(), q.parent(name)
	var list []Rival
	for _, other := range q.Objects {
		part := !q.waitsItself(name) && slices.Contains(q.Tree.Path(other.Name), name) // its parts are no rivals of it
		if other.Name == name || part || !q.waitsItself(other.Name) {
			continue
		}
		theirLevel, ownLevel := q.Tree.Fork(other.Name, name)
		theirs, own := q.standing(other.Name, theirLevel, ledger, line), q.standing(name, ownLevel, ledger, line)
		rival := Rival{Name: other.Name, Sibling: q.parent(other.Name) == parent, Factor: theirs.factor, Waiting: waitingGPUs(other)}
		rival.Turn, rival.Why = theirs.against(&own)
		list = append(list, rival)
	}
	place := map[Turn]int{Before: 0, Equal: 1, After: 2}
	slices.SortStableFunc(list, func(a, b Rival) int {
		return cmp.Or(cmp.Compare(place[a.Turn], place[b.Turn]), cmp.Compare(a.Factor, b.Factor), cmp.Compare(a.Name, b.Name))
	})
	q.addReclaim(name, list[:min(len(list), comparedRivals)], ledger, line)
	return list
}

// comparedRivals limits for how many rivals it is computed whether GPUs are taken back.
const comparedRivals = 50

// addReclaim adds to the rivals of a queue whether GPUs are taken back between it and them.
func (q *Queues) addReclaim(name string, list []Rival, ledger *queueing.Ledger, line *Line) {
	lenders := q.lenders(name, ledger, line)
	borrows := ledger.Borrowed(name, queueing.AnyModel) > 0
	for i := range list {
		rival := &list[i]
		if rival.GivesBack = lenders[rival.Name]; rival.GivesBack {
			rival.Why += fmt.Sprintf("; GPUs that it has borrowed may be reclaimed for %s", name)
		}
		if rival.TakesBack = borrows && q.lenders(rival.Name, ledger, line)[name]; rival.TakesBack {
			rival.Why += fmt.Sprintf("; GPUs that %s has borrowed may be reclaimed for it", name)
		}
	}
}

// lenders returns the queues of which GPUs may be taken back for the next task of a queue.
func (q *Queues) lenders(name string, ledger *queueing.Ledger, line *Line) map[string]bool {
	lenders := map[string]bool{}
	for _, lender := range ledger.Reclaimable(name, q.next(name, line)) {
		lenders[lender.Queue] = true
	}
	return lenders
}

// next returns what the next task of a queue asks for; if it may not be seen, a single GPU of a model that the queue
// waits for.
func (q *Queues) next(name string, line *Line) queueing.Amounts {
	for i := range line.Waiting {
		if entry := &line.Waiting[i]; entry.Queue == name && !entry.Refused {
			return entry.asked
		}
	}
	asked := queueing.Amounts{}
	for i := range q.Object(name).Status.Resources {
		if resource := &q.Object(name).Status.Resources[i]; amountOf(resource.Waiting) > 0 {
			asked = queueing.Amounts{resource.GPU: queueing.GPU}
		}
	}
	return asked
}

// waitsItself reports whether tasks wait in a queue that are not in one of its children.
func (q *Queues) waitsItself(name string) bool {
	count := q.Object(name).Status.Waiting
	for _, other := range q.Objects {
		if q.parent(other.Name) == name {
			count -= other.Status.Waiting
		}
	}
	return count > 0
}

func waitingGPUs(queue *v1.GPUQueue) string {
	for i := range queue.Status.Resources {
		if resource := &queue.Status.Resources[i]; resource.GPU == v1.AnyGPU {
			return resource.Waiting
		}
	}
	return "0"
}

// standing is what decides about a queue's turn.
type standing struct {
	name   string
	factor float64
	// used is true if the factor is known: there is none as long as nothing was used.
	used bool
	// level is the queue itself or its ancestor that is compared with the other queue's: the two have the same parent,
	// or are roots. It is empty for a queue whose parts include the other one: its own tasks have no guarantee beside
	// theirs.
	level string
	// guaranteed is true if the queue's next task fits into what level is guaranteed and does not hold
	// yet.
	guaranteed bool
	// held and due are what level holds and is guaranteed, of all models.
	held, due queueing.Amount
}

func (q *Queues) standing(name, level string, ledger *queueing.Ledger, line *Line) standing {
	_, used := q.Factors[name]
	asked := q.next(name, line)
	return standing{
		name: name, factor: q.factor(name), used: used, level: level, guaranteed: len(asked) > 0 && ledger.Within(level, asked),
		held: ledger.Held(level, queueing.AnyModel), due: q.Tree.Guaranteed(level, queueing.AnyModel),
	}
}

// against compares a rival with the queue in question.
func (s *standing) against(own *standing) (Turn, string) {
	switch {
	case s.guaranteed && !own.guaranteed:
		return Before, fmt.Sprintf("served before %s: %s, and guarantees go first", own.name, s.claim())
	case !s.guaranteed && own.guaranteed:
		return After, fmt.Sprintf("served after %s: %s, and guarantees go first", own.name, own.claim())
	}
	both := ""
	if s.guaranteed {
		both = "both are below their guarantees, and "
	}
	switch {
	case cmp.Compare(rounded(s.factor), rounded(own.factor)) < 0:
		return Before, fmt.Sprintf("served before %s: %sit has used %.2f times its share, %s %.2f times", own.name, both, s.factor, own.name, own.factor)
	case cmp.Compare(rounded(s.factor), rounded(own.factor)) > 0:
		return After, fmt.Sprintf("served after %s: %sit has used %.2f times its share, %s %.2f times", own.name, both, s.factor, own.name, own.factor)
	case !s.used && !own.used:
		return Equal, fmt.Sprintf("equal to %s: %sno GPU time was used yet, so the task with the longest wait for its run time goes first", own.name, both)
	default:
		return Equal, fmt.Sprintf("equal to %s: %sboth have used %.2f times their share, so the task with the longest wait for its run time goes first", own.name, both, s.factor)
	}
}

// claim says what a queue is owed.
func (s *standing) claim() string {
	if s.level != s.name {
		return fmt.Sprintf("%s is a child of %s, which holds %s of %s guaranteed GPUs", s.name, s.level, s.held, s.due)
	}
	return fmt.Sprintf("%s holds %s of %s guaranteed GPUs", s.name, s.held, s.due)
}

// rounded returns a factor as it is shown.
func rounded(factor float64) string { return fmt.Sprintf("%020.2f", factor) }
