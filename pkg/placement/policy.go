// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// Policy says what placements cost. The lowest cost wins; among equal ones the
// node with the smallest name.
type Policy interface {
	// Begin is told of each decision before it is made.
	Begin(cluster *Cluster, request *Request)
	// Epoch changes when prices change. Prices of the same epoch are asked for
	// once.
	Epoch() uint64
	// Price is what a step costs, whatever the rest of the cluster looks like.
	Price(step Step) float64
	// Surcharge is what depends on the rest of the cluster at this decision.
	Surcharge(request *Request, before *State) float64
}

// Step is a placement that may be made.
type Step struct {
	Request *Request
	Before  *State
	After   *State
	// CardFree is what is free before, in percent, of the card of which a share
	// is taken.
	CardFree int
}
