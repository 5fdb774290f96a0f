// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// failures remembers which requests found no place in the cluster as it is, so that equal
// requests are not planned in vain, with what the filters refused. It is for scheduling cycles only,
// which run one after the other. Its zero value is empty.
type failures struct {
	// version is that of the cluster: mirror.Freed, or mirror.Version for what changes
	// whenever a Pod is placed.
	version uint64
	known   map[string]*Refusals
}

// maxFailures bounds how many failures are remembered.
const maxFailures = 4096

// get returns what is remembered of a request that failed at this version of the cluster. What
// failed at an earlier one is forgotten: it may be a lot.
func (f *failures) get(version uint64, key string) (failure *Refusals, found bool) {
	if version > f.version {
		f.known = nil
	}
	if version != f.version {
		return nil, false
	}
	failure, found = f.known[key]
	return failure, found
}

// put remembers that a request failed. The version must have been read before the attempt:
// if something is freed meanwhile, the attempt may not have seen it.
func (f *failures) put(version uint64, key string, failure *Refusals) {
	if version < f.version {
		return // another request has failed at a later version
	}
	if version > f.version || len(f.known) >= maxFailures || f.known == nil {
		f.version, f.known = version, map[string]*Refusals{}
	}
	f.known[key] = failure
}

// Keys identify what a gang asks for. Two gangs may ask for the same of the engine, and look
// different to the filters: by their labels.
type Keys struct {
	// Request is for what doesn't depend on filters; see requestKey.
	Request string
	// Filtered is for what does: it has the classes of the Pods as well, and depends on the
	// nodes and the other objects that filters look at.
	Filtered string
}

// After returns the key for what is known of a gang after an attempt: if no filter has
// refused anything, it holds for all gangs that ask for the same.
func (k Keys) After(filtered bool) string {
	if filtered {
		return k.Filtered
	}
	return k.Request
}

// KeysOf identifies what a gang asks for, and what its Pods look like to filters. blocking is a key for the
// reservations that block it, and admissions changes whenever a node may admit other Pods.
func (c *Consultant) KeysOf(request *gangs.Request, blocking string, admissions uint64) Keys {
	key := requestKey(request, blocking)
	if len(c.runners) == 0 {
		return Keys{key, key}
	}
	parts := []string{key, strconv.FormatUint(c.Memory.Changes(), 10), strconv.FormatUint(admissions, 10)}
	for role := range request.Roles {
		parts = append(parts, c.ClassOf(request.Member(role, 0)).Key)
	}
	return Keys{key, strings.Join(parts, "\x00")}
}

// KnownFailure returns what filters refused when a gang that asks for the same found no place
// in the cluster as it is.
func (c *Consultant) KnownFailure(freed uint64, wanted Keys) (refused *Refusals, failed bool) {
	for _, key := range [...]string{wanted.Request, wanted.Filtered} {
		if refused, failed = c.failures.get(freed, key); failed {
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
