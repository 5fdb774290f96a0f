// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// Policy determines what placements cost. The lowest cost wins; ties go to the node that the
// request prefers, then to the one with the smallest name.
type Policy interface {
	// Begin is called before each decision.
	Begin(cluster *Cluster, request *Request)
	// Epoch changes when prices change. Prices are cached within an epoch.
	Epoch() uint64
	// Price returns what a step costs, independently of the rest of the cluster.
	Price(step Step) float64
	// Surcharge returns the part of the cost that depends on the rest of the cluster at
	// this decision.
	Surcharge(request *Request, before *State) float64
}

// Step is a candidate placement.
type Step struct {
	Request *Request
	Before  *State
	After   *State
	// CardFree is the free percentage, before the step, of the card that a share is taken
	// from.
	CardFree int
}
