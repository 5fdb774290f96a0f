// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// Selector says which nodes will do, by their Traits: labels and taints of which
// this package knows nothing.
type Selector interface {
	// Key identifies the selector: two with equal keys admit the same.
	Key() string
	// Admits is whether nodes of some traits will do: Fits, OtherLabels or Tainted.
	// The answer must always be the same; it is remembered.
	Admits(traits string) Reason
}

// selector is a Selector that a Cluster knows.
type selector struct {
	Selector
	// id counts the selectors of a cluster from 0.
	id int
}

// admission is what a selector says to nodes of a kind.
type admission struct {
	selector *selector // nil if none was asked
	reason   Reason
}

// maxAdmissions is for how many selectors a kind remembers the answer, as
// maxOffers.
const maxAdmissions = 512

// admits is what a request's selector says to nodes of the kind.
func (k *kind) admits(r *Request) Reason {
	if r.selector == nil {
		return Fits
	}
	slot := r.selector.id % maxAdmissions
	if slot >= len(k.admissions) {
		more := make([]admission, slot+1)
		copy(more, k.admissions)
		k.admissions = more
	}
	known := &k.admissions[slot]
	if known.selector != r.selector {
		*known = admission{selector: r.selector, reason: r.selector.ask(k.traits)}
	}
	return known.reason
}

// ask makes one of the allowed answers of whatever a selector says.
func (s *selector) ask(traits string) Reason {
	switch reason := s.Admits(traits); reason {
	case Fits, Tainted:
		return reason
	default:
		return OtherLabels
	}
}

// selector returns the cluster's entry of a selector; nil for none.
func (c *Cluster) selector(s Selector) *selector {
	if s == nil {
		return nil
	}
	key := s.Key()
	if known := c.selectors[key]; known != nil {
		return known
	}
	made := &selector{Selector: s, id: len(c.selectors)}
	c.selectors[key] = made
	return made
}

// sameTraits admits nodes of the same traits only: a Pod of which is not known
// what it selects and tolerates is safe on these.
type sameTraits string

func (s sameTraits) Key() string { return "falldio.com/same-traits:" + string(s) }

func (s sameTraits) Admits(traits string) Reason {
	if traits == string(s) {
		return Fits
	}
	return OtherLabels
}
