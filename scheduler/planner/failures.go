// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// failures remembers which requests found no place in the cluster as it is, so that equal
// requests are not planned in vain. T is what else is remembered of a failure. It is for
// scheduling cycles only, which run one after the other. Its zero value is empty.
type failures[T any] struct {
	// version is that of the cluster: mirror.Freed, or mirror.Version for what changes
	// whenever a Pod is placed.
	version uint64
	known   map[string]T
}

// maxFailures bounds how many failures are remembered.
const maxFailures = 4096

// get returns what is remembered of a request that failed at this version of the cluster. What
// failed at an earlier one is forgotten: it may be a lot.
func (f *failures[T]) get(version uint64, key string) (failure T, found bool) {
	if version > f.version {
		f.known = nil
	}
	if version != f.version {
		return failure, false
	}
	failure, found = f.known[key]
	return failure, found
}

// put remembers that a request failed. The version must have been read before the attempt:
// if something is freed meanwhile, the attempt may not have seen it.
func (f *failures[T]) put(version uint64, key string, failure T) {
	if version < f.version {
		return // another request has failed at a later version
	}
	if version > f.version || len(f.known) >= maxFailures || f.known == nil {
		f.version, f.known = version, map[string]T{}
	}
	f.known[key] = failure
}

// keys identify what a gang asks for. Two gangs may ask for the same of the engine, and look
// different to the filters: by their labels.
type keys struct {
	// request is for what doesn't depend on filters; see requestKey.
	request string
	// filtered is for what does: it has the classes of the Pods as well, and depends on the
	// nodes and the other objects that filters look at.
	filtered string
}

// after returns the key for what is known of a gang after an attempt: if no filter has
// refused anything, it holds for all gangs that ask for the same.
func (k keys) after(filtered bool) string {
	if filtered {
		return k.filtered
	}
	return k.request
}

// knownFailure returns what filters refused when a gang that asks for the same found no place
// in the cluster as it is.
func (p *Planner) knownFailure(freed uint64, wanted keys) (refused *refusals, failed bool) {
	for _, key := range [...]string{wanted.request, wanted.filtered} {
		if refused, failed = p.failed.get(freed, key); failed {
			return refused, true
		}
	}
	return nil, false
}

// requestKey identifies what a gang asks for: requests with equal keys have the same places
// to choose from, and need the same. blocking is a key for the reservations that block
// the gang; see mirror.BlockingKey.
func requestKey(request *gangs.Request, blocking string) string {
	parts := make([]string, 0, len(request.Roles)+len(request.Except)+1)
	for i := range request.Roles {
		role := &request.Roles[i]
		parts = append(parts, fmt.Sprintf("role %d-%d %q", role.Min, role.Max, role.Shape.Key()))
	}
	slices.Sort(parts) // members come in the order of their indices
	except := slices.Clone(request.Except)
	slices.Sort(except)
	for _, node := range slices.Compact(except) {
		parts = append(parts, "except "+node)
	}
	parts = append(parts, fmt.Sprintf("level %d %t %s", request.Level, request.Required, request.Near), blocking)
	hash := sha256.Sum256([]byte(strings.Join(parts, "\x00"))) // what Pods ask for may be long, and thousands of keys are kept
	return string(hash[:])
}
