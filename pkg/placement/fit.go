// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"strings"

	"falldio.github.io/gpu-controller/pkg/plural"
)

// Reason is why a node can't take a Pod.
type Reason uint8

// The reasons. Those that hold on an empty node as well come first.
const (
	Fits           Reason = iota
	InvalidRequest        // the request is invalid
	OtherPool
	OtherLabels // see Selector
	Tainted     // see Selector
	NotOffered  // see Selector
	Excluded    // see Gang.Except
	OtherModel
	TooFewGPUs // even if all were free
	TooLittleGPUMemory
	NodeTooSmall
	ResourceTooSmall // of Shape.Others
	NodeClosed       // only that keeps the Pod off an empty node; see Node.Closed
	NodeCordoned     // see Selector
	NodeNotReady     // see Selector
	NoPodSlot
	InsufficientCPU
	InsufficientMemory
	InsufficientResource // of Shape.Others
	InsufficientGPUs
	InsufficientShare // no card has that much free
	reasons
)

// reasonTexts complete the sentences "the node …" and "the nodes …". word is the reason in one word.
var reasonTexts = [reasons]struct{ word, one, several string }{
	Fits:                 {"Fits", "has room for part of it", "have room for part of it"},
	InvalidRequest:       {"InvalidRequest", "can't take an invalid request", "can't take an invalid request"},
	OtherPool:            {"OtherPool", "is in another node pool", "are in another node pool"},
	OtherLabels:          {"OtherLabels", "does not match the node selector or affinity", "do not match the node selector or affinity"},
	Tainted:              {"Tainted", "has a taint that is not tolerated", "have taints that are not tolerated"},
	NotOffered:           {"NotOffered", "does not offer %s", "do not offer %s"},
	Excluded:             {"Excluded", "is reserved for others or has refused it", "are reserved for others or have refused it"},
	OtherModel:           {"OtherModel", "has another GPU model", "have another GPU model"},
	TooFewGPUs:           {"TooFewGPUs", "has too few GPUs", "have too few GPUs"},
	TooLittleGPUMemory:   {"TooLittleGPUMemory", "has GPUs with less memory", "have GPUs with less memory"},
	NodeTooSmall:         {"NodeTooSmall", "is too small in CPU or memory", "are too small in CPU or memory"},
	ResourceTooSmall:     {"ResourceTooSmall", "is too small in %s", "are too small in %s"},
	NodeClosed:           {"NodeClosed", "takes no Pods", "take no Pods"},
	NodeCordoned:         {"NodeCordoned", "is cordoned", "are cordoned"},
	NodeNotReady:         {"NodeNotReady", "is not ready", "are not ready"},
	NoPodSlot:            {"NoPodSlot", "runs as many Pods as it can", "run as many Pods as they can"},
	InsufficientCPU:      {"InsufficientCPU", "has too little free CPU", "have too little free CPU"},
	InsufficientMemory:   {"InsufficientMemory", "has too little free memory", "have too little free memory"},
	InsufficientResource: {"InsufficientResource", "has too little free %s", "have too little free %s"},
	InsufficientGPUs:     {"InsufficientGPUs", "has too few free GPUs", "have too few free GPUs"},
	InsufficientShare:    {"InsufficientShare", "has no GPU with that much free", "have no GPU with that much free"},
}

// String completes the sentence "the node …".
func (r Reason) String() string { return r.text(1, "") }

// Word returns the reason in one word.
func (r Reason) Word() string {
	if r >= reasons {
		return "Unknown"
	}
	return reasonTexts[r].word
}

// ReasonOf returns the reason with a word; isReason is false if there is none.
func ReasonOf(word string) (reason Reason, isReason bool) {
	for reason := range reasons {
		if reasonTexts[reason].word == word {
			return reason, true
		}
	}
	return 0, false
}

// text completes a sentence about a number of nodes; resource is the one that the reason
// is about, if known.
func (r Reason) text(nodes int, resource string) string {
	if r >= reasons {
		return "unknown reason"
	}
	text := reasonTexts[r]
	switch device := (Amount{Resource: resource}).isDevice(); {
	case device && r == ResourceTooSmall:
		text.one, text.several = "has too few %s", "have too few %s"
	case device && r == InsufficientResource:
		text.one, text.several = "has too few free %s", "have too few free %s"
	case resource == "":
		resource = "another resource"
	}
	return strings.Replace(plural.Verb(nodes, text.one, text.several), "%s", inWords(resource, 0), 1)
}

// shortOf returns the resource that a reason is about, if it is about one.
func (n *node) shortOf(r *Request, reason Reason) string {
	switch reason {
	case ResourceTooSmall:
		return n.layout.kind.tooSmall(&n.slack, r.Others)
	case InsufficientResource:
		return n.layout.kind.short(n.others, &slack{}, r.Others)
	case NotOffered:
		if asks, ok := r.Selector.(interface{ GPUResource() string }); ok {
			return asks.GPUResource()
		}
	default: // about no resource
	}
	return ""
}

// Lasting reports whether a reason holds on an empty node as well.
func (r Reason) Lasting() bool { return r > Fits && r <= NodeNotReady }

// Closed reports whether an empty node would take the Pod were it not closed.
func (r Reason) Closed() bool { return r >= NodeClosed && r <= NodeNotReady }

// fit returns the first reason, in the reasons' order, why a node in the State with some
// slack can't take a request, or Fits.
func (s *State) fit(r *Request, more *slack) Reason {
	if reason := s.kind.fit(r, more); reason != Fits {
		return reason
	}
	switch {
	case s.slots < 1:
		return NoPodSlot
	case s.cpu < r.CPU:
		return InsufficientCPU
	case s.memory+more.memory < r.Memory:
		return InsufficientMemory
	case s.kind.short(s.others, more, r.Others) != "":
		return InsufficientResource
	case r.GPUs > 0 && s.wholeFor(r) < r.GPUs:
		return InsufficientGPUs
	case r.Share > 0 && !s.hasShare(r):
		return InsufficientShare
	}
	return Fits
}

// fit returns why even an empty node of the kind with some slack couldn't take a request,
// or Fits.
func (k *kind) fit(r *Request, more *slack) Reason {
	admitted := k.admits(r)
	switch {
	case r.err != nil:
		return InvalidRequest
	case r.Pool != "" && r.Pool != k.pool:
		return OtherPool
	case admitted != Fits && !admitted.Closed():
		return admitted
	case !r.accepts(k.model):
		return OtherModel
	}
	if wanted := max(r.GPUs, min(r.Share, 1)); wanted > 0 {
		if k.gpus < wanted {
			return TooFewGPUs
		}
		if r.GPUMemory > 0 && k.withMemory(r.GPUMemory) < wanted {
			return TooLittleGPUMemory
		}
	}
	return cmp.Or(k.fitSize(r, more), admitted)
}

// fitSize returns why even an empty node is too small for a request, or Fits.
func (k *kind) fitSize(r *Request, more *slack) Reason {
	switch {
	case k.cpu < r.CPU || k.memory+more.memory < r.Memory || k.slots < 1:
		return NodeTooSmall
	case k.tooSmall(more, r.Others) != "":
		return ResourceTooSmall
	default:
		return Fits
	}
}

// withMemory counts the cards with a minimum of memory.
func (k *kind) withMemory(least int64) int {
	count := 0
	for _, memory := range k.memories {
		if memory >= least {
			count++
		}
	}
	return count
}

// wholeFor counts the cards that a request for whole GPUs could get.
func (s *State) wholeFor(r *Request) int {
	if r.GPUMemory == 0 {
		return s.whole
	}
	count := 0
	for position, free := range s.free {
		if free == Card && s.kind.memories[position] >= r.GPUMemory {
			count++
		}
	}
	return count
}

func (s *State) hasShare(r *Request) bool {
	for position := range s.free {
		if s.sharesAt(r, position) {
			return true
		}
	}
	return false
}

// sharesAt reports whether the card at a position has room for the request's share.
func (s *State) sharesAt(r *Request, position int) bool {
	return int(s.free[position]) >= r.Share && s.kind.memories[position] >= r.GPUMemory
}

// capacity returns how many Pods of a request a node in the State with some slack could
// take.
func (s *State) capacity(r *Request, more *slack) int {
	if s.fit(r, more) != Fits {
		return 0
	}
	count := s.slots
	if r.CPU > 0 {
		count = min(count, int(s.cpu/r.CPU))
	}
	if r.Memory > 0 {
		count = min(count, int((s.memory+more.memory)/r.Memory))
	}
	count = s.kind.times(s.others, more, r.Others, count)
	switch {
	case r.GPUs > 0:
		count = min(count, s.wholeFor(r)/r.GPUs)
	case r.Share > 0:
		shares := 0
		for position := range s.free {
			if s.kind.memories[position] >= r.GPUMemory {
				shares += int(s.free[position]) / r.Share
			}
		}
		count = min(count, shares)
	}
	return count
}
