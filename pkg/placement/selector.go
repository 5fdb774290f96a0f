// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// Selector decides which nodes are suitable by their Traits: labels and taints, which are
// opaque to this package.
type Selector interface {
	// Key identifies the selector: two with equal keys admit the same nodes.
	Key() string
	// Admits returns whether nodes with some traits are suitable: Fits, OtherLabels, Tainted, or NotOffered if the GPUs
	// there are not offered under the name that is asked for. In that case explanations name what the method
	// GPUResource() string returns, if there is one. NodeClosed, NodeCordoned and NodeNotReady are for nodes that only
	// that makes unsuitable. The result must always be the same; it is cached.
	Admits(traits string) Reason
}

// closedJudge is a Selector that knows from the traits of a closed node whether it is closed to the Pod as well: some
// may tolerate what closes it. To all other Pods it is closed.
type closedJudge interface{ JudgesClosed() }

// selector is a Selector interned by a Cluster.
type selector struct {
	Selector
	// id numbers the selectors of a cluster from 1, each number once.
	id int
	// judgesClosed is true for a closedJudge.
	judgesClosed bool
	// used is true if a sweep has found a request with it.
	used bool
}

// admission is the cached result of a selector for nodes of a kind.
type admission struct {
	selector int // its id; 0 if the slot is empty
	reason   Reason
}

// maxAdmissions is the number of selectors for which a kind caches the result, like
// maxOffers.
const maxAdmissions = 512

// admits returns the result of a request's selector for nodes of the kind.
func (k *kind) admits(r *Request) Reason {
	if r.selector == nil {
		if k.closed {
			return NodeClosed
		}
		return Fits
	}
	known := slotOf(&k.admissions, r.selector.id, maxAdmissions)
	if known.selector != r.selector.id {
		*known = admission{selector: r.selector.id, reason: r.selector.evaluate(k.traits)}
	}
	switch {
	case !k.closed && known.reason.Closed(): // it has been opened
		return Fits
	case k.closed && known.reason == Fits && !r.selector.judgesClosed:
		return NodeClosed
	default:
		return known.reason
	}
}

// evaluate returns a selector's result; an invalid one counts as OtherLabels.
func (s *selector) evaluate(traits string) Reason {
	switch reason := s.Admits(traits); reason {
	case Fits, Tainted, NotOffered, NodeClosed, NodeCordoned, NodeNotReady:
		return reason
	default:
		return OtherLabels
	}
}

// selector returns the interned selector; nil for none.
func (c *Cluster) selector(s Selector) *selector {
	if s == nil {
		return nil
	}
	return c.selectors.intern(s.Key(), func(id int) *selector {
		_, judgesClosed := s.(closedJudge)
		return &selector{Selector: s, id: id, judgesClosed: judgesClosed}
	})
}

// sameTraits admits only nodes with equal traits: they are safe for a Pod whose node
// selector and tolerations are unknown.
type sameTraits string

func (s sameTraits) Key() string { return "falldio.com/same-traits:" + string(s) }

func (s sameTraits) Admits(traits string) Reason {
	if traits == string(s) {
		return Fits
	}
	return OtherLabels
}
