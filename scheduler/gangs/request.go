// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Request is what a gang asks for, in the engine's terms, with its members by role. Once it is made it does not change:
// what confines it returns another one.
type Request struct {
	*snapshot.Members[*Member]
	// Near is the domain that the gang's other members are in.
	Near string
	// Kept are those of the nodes that it can't use which are kept for others, and Only are the only ones that it may
	// use; nil for all. Both are for the record: Except has what follows.
	Kept, Only []string
}

// Confined returns the request with its gang changed, which has roles of its own.
func (r *Request) Confined(change func(*placement.Gang)) *Request {
	confined, members := *r, *r.Members
	members.Roles = slices.Clone(r.Roles)
	change(&members.Gang)
	confined.Members = &members
	return &confined
}

// Without returns the request with further nodes that the gang can't use.
func (r *Request) Without(nodes []string) *Request {
	return r.Confined(func(gang *placement.Gang) { gang.Except = Union(r.Except, nodes) })
}

// In returns the request within a domain; empty for the whole cluster.
func (r *Request) In(domain string) *Request {
	return r.Confined(func(gang *placement.Gang) { gang.Within = domain })
}

// NearFirst calls try for the gang within the domain of its other members, so that replaced members return there, and
// then anywhere, unless that domain is required. It stops at the first success.
func (r *Request) NearFirst(try func(*Request) (success bool)) {
	if r.Near != "" && (try(r.In(r.Near)) || r.Required) {
		return
	}
	try(r)
}

// Union returns the names that are in either list, in order.
func Union(some, others []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(some, others))))
}
