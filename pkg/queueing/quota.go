// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Amount is a number of GPUs, in hundredths of one.
type Amount int64

// GPU is one whole GPU.
const GPU Amount = 100

// Unlimited is the limit of what has none. It is less than the greatest number, so that nothing
// overflows.
const Unlimited Amount = math.MaxInt64 / 4

// String returns the amount as gpu-amount of a task, "2" or "0.5".
func (a Amount) String() string {
	return strconv.FormatFloat(float64(a)/float64(GPU), 'f', -1, 64)
}

// Amounts are GPUs by model. Those with AnyModel may be of any.
type Amounts map[string]Amount

// Sum returns the GPUs of all models together.
func (a Amounts) Sum() Amount {
	sum := Amount(0)
	for _, amount := range a {
		sum += amount
	}
	return sum
}

// CountModel returns "4 GPUs" or "4 h100-80gb-hbm3".
func CountModel(amount Amount, model string) string {
	switch {
	case model != AnyModel && model != "":
		return amount.String() + " " + model
	case amount == GPU:
		return "1 GPU"
	default:
		return amount.String() + " GPUs"
	}
}

// Ledger is what the queues of a tree hold. A GPU counts for its queue and for all of its
// ancestors, with its model and with AnyModel. A queue's own jobs, beside those of its children,
// count as a child without guarantee.
//
// What a queue holds beyond its guarantee is borrowed: from its siblings while the parent is within
// its own guarantee, else from others. It is lent as long as nobody is below a guarantee who wants
// it.
//
// A Ledger is not safe for concurrent use.
type Ledger struct {
	tree *Tree
	// held and own are by node.index: with the descendants, and without.
	held, own []Amounts
}

// NewLedger returns a ledger in which no queue holds anything.
func NewLedger(tree *Tree) *Ledger {
	l := &Ledger{tree: tree, held: make([]Amounts, len(tree.sorted)), own: make([]Amounts, len(tree.sorted))}
	for i := range tree.sorted {
		l.held[i], l.own[i] = Amounts{}, Amounts{}
	}
	return l
}

// Clone returns a copy, to try something out.
func (l *Ledger) Clone() *Ledger {
	clone := &Ledger{tree: l.tree, held: make([]Amounts, len(l.held)), own: make([]Amounts, len(l.own))}
	for i := range l.held {
		clone.held[i], clone.own[i] = maps.Clone(l.held[i]), maps.Clone(l.own[i])
	}
	return clone
}

// Tree returns the tree of the queues.
func (l *Ledger) Tree() *Tree { return l.tree }

// Add enters that a queue holds more of a model, or less if the amount is negative. A model that is
// not known is empty. A queue that does not exist is NoQueue.
func (l *Ledger) Add(queue, model string, amount Amount) {
	n := l.tree.at(queue)
	l.own[n.index].enter(model, amount)
	for ; n != nil; n = n.parent {
		l.held[n.index].enter(model, amount)
	}
}

// enter adds GPUs of a model that are held, and counts them as of any model as well.
func (a Amounts) enter(model string, amount Amount) {
	if model == AnyModel {
		model = ""
	}
	for _, key := range [...]string{model, AnyModel} {
		if a[key] += amount; a[key] == 0 {
			delete(a, key)
		}
	}
}

// Held returns what a queue and its descendants hold of a model, or of AnyModel.
func (l *Ledger) Held(queue, model string) Amount { return l.held[l.tree.at(queue).index][model] }

// Models returns the models that a queue and its descendants hold, sorted; empty for GPUs whose
// model is not known.
func (l *Ledger) Models(queue string) []string {
	held := l.held[l.tree.at(queue).index]
	models := make([]string, 0, len(held))
	for model := range held {
		if model != AnyModel {
			models = append(models, model)
		}
	}
	slices.Sort(models)
	return models
}

// Excess is a limit that a request exceeds.
type Excess struct {
	// Queue is the one with the limit: that of the request, or an ancestor.
	Queue string
	// Model is the one that is limited, or AnyModel.
	Model               string
	Limit, Held, Wanted Amount
}

// Permanent reports whether the request exceeds the limit even if the queue holds nothing.
func (e *Excess) Permanent() bool { return e.Wanted > e.Limit }

// String returns the excess as a sentence.
func (e *Excess) String() string {
	if e.Permanent() {
		return fmt.Sprintf("queue %s may hold %s at most, and %s are asked for", e.Queue, CountModel(e.Limit, e.Model), e.Wanted)
	}
	return fmt.Sprintf("queue %s holds %s of at most %s, and %s are asked for", e.Queue, e.Held, CountModel(e.Limit, e.Model), e.Wanted)
}

// Fits returns nil if a queue may hold the request as well: if it and all of its ancestors stay
// within their limits, those of each model and those of all together. Otherwise it returns the
// limit that is exceeded: one that no end of a job helps with, if there is one, else the nearest.
//
// What is asked for with AnyModel counts only together with all others: Full returns the models that it
// must not come from.
func (l *Ledger) Fits(queue string, request Amounts) *Excess {
	var first *Excess
	for n := l.tree.at(queue); n != nil; n = n.parent {
		for _, excess := range l.exceeds(n, request) {
			if excess.Permanent() {
				return &excess
			}
			if first == nil {
				first = &excess
			}
		}
	}
	return first
}

// exceeds returns the limits of one queue that a request exceeds, by model.
func (l *Ledger) exceeds(n *node, request Amounts) []Excess {
	var found []Excess
	check := func(model string, wanted Amount) {
		if limit, held := n.limit(model), l.held[n.index][model]; wanted > 0 && held+wanted > limit {
			found = append(found, Excess{n.queue.Name, model, limit, held, wanted})
		}
	}
	if len(n.queue.Quotas) == 0 {
		return nil
	}
	for _, model := range slices.Sorted(maps.Keys(request)) {
		if model != AnyModel {
			check(model, request[model])
		}
	}
	check(AnyModel, request.Sum())
	return found
}

// Full returns the models of which a queue, or one of its ancestors, must not hold the amount as
// well, sorted.
func (l *Ledger) Full(queue string, amount Amount) []string {
	full := map[string]bool{}
	for n := l.tree.at(queue); n != nil; n = n.parent {
		for model, quota := range n.queue.Quotas {
			if model != AnyModel && l.held[n.index][model]+amount > quota.Limit {
				full[model] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(full))
}

// Borrowed returns what a queue holds of a model, or of AnyModel, beyond its guarantee. Of a model,
// it is not more than of all together: GPUs that are guaranteed of any model are not borrowed.
func (l *Ledger) Borrowed(queue, model string) Amount {
	n := l.tree.at(queue)
	borrowed := max(0, l.over(n, AnyModel))
	if model != AnyModel {
		borrowed = min(borrowed, max(0, l.over(n, model)))
	}
	return borrowed
}

// over returns what a queue holds beyond its guarantee, negative if it holds less.
func (l *Ledger) over(n *node, model string) Amount { return n.over(l.held[n.index], model) }

func (n *node) over(held Amounts, model string) Amount { return held[model] - n.guaranteed[model] }

// Within reports whether a queue stays within its own guarantees with a request, whatever its ancestors
// are guaranteed: within that of each model, or that of all together.
func (l *Ledger) Within(queue string, request Amounts) bool {
	n := l.tree.at(queue)
	return n.within(l.held[n.index], request)
}

func (n *node) within(held, request Amounts) bool {
	return n.over(held, AnyModel)+request.Sum() <= 0 || n.withinModels(held, request)
}

func (n *node) withinModels(held, request Amounts) bool {
	for model, amount := range request {
		if model == AnyModel || n.over(held, model)+amount > 0 {
			return false
		}
	}
	return len(request) > 0
}

// Lender is a queue of which GPUs may be taken back.
type Lender struct {
	Queue, Model string
	// Amount is what the queue's own jobs hold of it and may lose. Jobs are taken as a whole: the
	// last one may be greater than the rest of the amount.
	Amount Amount
	// Reclaim is how they are taken.
	Reclaim Reclaim
}

// Reclaimable returns the queues that hold GPUs which belong to a queue that makes a request: GPUs of
// the models that it asks for, or of all if it asks for any with AnyModel. It returns none if the queue
// would be beyond its guarantee with the request.
//
// Between two queues, those decide that are on the same level, below the nearest ancestor of both,
// or roots: the one that wants must stay within its guarantee, and the other one, with all queues
// from there down, must be beyond its own. So a parent's guarantee is for all of its children, each
// may use what the others leave, and gets back what is guaranteed to itself. GPUs that are
// guaranteed of a model are not taken for what is guaranteed of any model.
//
// Those come first that are farthest away: what the whole parent is owed is not taken from its own
// children. Of two that are equally far, the one comes first that has borrowed more for its weight,
// compared where their paths part. The amounts are each for itself: two children may have borrowed
// the same part of their parent's. Enter what is taken, and ask again.
//
// If the request exceeds limits of the queue's ancestors, only what is given back below the farthest of
// them helps (see Shortages); then GPUs of other models help against a limit of all models together.
func (l *Ledger) Reclaimable(queue string, request Amounts) []Lender {
	shortages, mendable := l.Shortages(queue, request)
	if !mendable {
		return nil
	}
	r := l.newReclaimant(l.tree.at(queue), request)
	var found []candidate
	for _, model := range r.models(shortages) {
		found = append(found, r.candidates(model)...)
	}
	slices.SortStableFunc(found, r.compare)
	lenders := make([]Lender, 0, len(found))
	for _, lender := range found {
		name := lender.node.queue.Name
		if reclaim := l.tree.Reclaim(name); reclaim.Policy != ReclaimNever && Helps(shortages, l.tree, name) {
			lenders = append(lenders, Lender{name, lender.model, lender.amount, reclaim})
		}
	}
	return lenders
}

// reclaimant is a queue that needs GPUs back that others have borrowed.
type reclaimant struct {
	*Ledger
	request Amounts
	// path are the queue and its ancestors, by depth. For each, byModel and byAny say
	// whether it stays within what it is guaranteed of the models, or of all together.
	path           []*node
	byModel, byAny []bool
}

func (l *Ledger) newReclaimant(of *node, request Amounts) *reclaimant {
	r := &reclaimant{Ledger: l, request: request, path: make([]*node, of.depth+1), byModel: make([]bool, of.depth+1), byAny: make([]bool, of.depth+1)}
	for n := of; n != nil; n = n.parent {
		r.path[n.depth] = n
		r.byModel[n.depth] = n.withinModels(l.held[n.index], request)
		r.byAny[n.depth] = l.over(n, AnyModel)+request.Sum() <= 0
	}
	return r
}

// models returns the models to take: those that are asked for, or all that are held.
func (r *reclaimant) models(shortages []Shortage) []string {
	all := r.request[AnyModel] > 0 || slices.ContainsFunc(shortages, func(short Shortage) bool { return short.Model == AnyModel })
	if !all {
		return slices.Sorted(maps.Keys(r.request))
	}
	held := map[string]bool{}
	for _, n := range r.tree.sorted {
		for model := range r.own[n.index] {
			held[model] = true
		}
	}
	delete(held, AnyModel)
	return slices.Sorted(maps.Keys(held))
}

// asks reports whether it needs GPUs of a model.
func (r *reclaimant) asks(model string) bool { return r.request[model] > 0 || r.request[AnyModel] > 0 }

// candidate is a queue that may have to give back GPUs of a model.
type candidate struct {
	node   *node
	model  string
	amount Amount
	// meets is the depth of the nearest queue that is above both, -1 if they have different roots.
	meets int
}

// chain is what queues on the way down from where the paths part have borrowed, the least of them:
// what a claim by model may take, and what one of any model may.
type chain struct {
	meets       int
	model, both Amount
}

// candidates returns the queues whose own jobs hold GPUs of a model that it may take.
func (r *reclaimant) candidates(model string) []candidate {
	var found []candidate
	chains := make([]chain, len(r.tree.sorted))
	for _, n := range r.tree.sorted {
		at := r.chainOf(n, model, chains)
		chains[n.index] = at
		below := at.meets + 1 // the level of the two queues that decide
		if below >= len(r.path) {
			continue // it is below the reclaimant, or the reclaimant itself
		}
		if amount := min(r.reclaims(below, model, at), r.own[n.index][model]); amount > 0 {
			found = append(found, candidate{n, model, amount, at.meets})
		}
	}
	return found
}

// reclaims returns what of a model may be taken from a chain on whose first level a queue on the path decides.
func (r *reclaimant) reclaims(level int, model string, from chain) Amount {
	switch {
	case r.byModel[level] && r.asks(model):
		return from.model // it is not less than both
	case r.byModel[level] || r.byAny[level]:
		return from.both
	default:
		return 0
	}
}

func (r *reclaimant) chainOf(n *node, model string, chains []chain) chain {
	switch {
	case n.depth < len(r.path) && r.path[n.depth] == n:
		return chain{n.depth, Unlimited, Unlimited} // its own jobs have no guarantee beside its children's
	case n.parent == nil:
		return r.extend(chain{-1, Unlimited, Unlimited}, n, model)
	default:
		return r.extend(chains[n.parent.index], n, model)
	}
}

func (r *reclaimant) extend(above chain, n *node, model string) chain {
	overModel := max(0, r.over(n, model))
	return chain{above.meets, min(above.model, overModel), min(above.both, overModel, max(0, r.over(n, AnyModel)))}
}

// compare orders candidates as Reclaimable says.
func (r *reclaimant) compare(a, b candidate) int {
	if order := cmp.Compare(a.meets, b.meets); order != 0 || a.node == b.node {
		return order
	}
	x, y := a.node, b.node
	for x.depth > y.depth && x.parent != y {
		x = x.parent
	}
	for y.depth > x.depth && y.parent != x {
		y = y.parent
	}
	if x.parent == y {
		return compareParts(r.part(x), r.ownPart(y), x, y)
	}
	if y.parent == x {
		return compareParts(r.ownPart(x), r.part(y), x, y)
	}
	for x.parent != y.parent {
		x, y = x.parent, y.parent
	}
	return compareParts(r.part(x), r.part(y), x, y)
}

func compareParts(a, b float64, x, y *node) int {
	return cmp.Or(cmp.Compare(b, a), cmp.Compare(x.index, y.index))
}

// part returns what a queue has borrowed for its weight.
func (r *reclaimant) part(n *node) float64 { return float64(r.over(n, AnyModel)) / float64(n.weight()) }

// ownPart returns the same of a queue's own jobs, beside its children.
func (r *reclaimant) ownPart(n *node) float64 {
	return float64(r.own[n.index][AnyModel]) / float64(n.weight())
}
