// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import "slices"

// Shortage is what a queue and its descendants have to give back of a model, or of AnyModel, so that a
// request of one of its descendants stays within the queue's limit.
type Shortage struct {
	Queue, Model string
	Amount       Amount
}

// Shortages returns by how much a request of a queue exceeds the limits of its ancestors, the nearest one
// first. mendable is false if the request would have to wait even if all of them were given back: it
// exceeds a limit of the queue itself, or one that is too low for it in any case.
func (l *Ledger) Shortages(queue string, request Amounts) (list []Shortage, mendable bool) {
	own := l.tree.at(queue)
	for n := own; n != nil; n = n.parent {
		for _, excess := range l.exceeds(n, request) {
			if n == own || excess.Permanent() {
				return nil, false
			}
			list = append(list, Shortage{excess.Queue, excess.Model, excess.Held + excess.Wanted - excess.Limit})
		}
	}
	return list, true
}

// Helps reports whether it may help against shortages of a queue's ancestors, the nearest first, if another queue gives
// back GPUs: if that is below the farthest of them, or there are none.
func Helps(shortages []Shortage, tree *Tree, queue string) bool {
	return len(shortages) == 0 || slices.Contains(tree.Path(queue), shortages[len(shortages)-1].Queue)
}

// Covers reports whether GPUs of a model that a queue gives back count for the shortage.
func (s *Shortage) Covers(tree *Tree, queue, model string) bool {
	return (s.Model == AnyModel || s.Model == model) && slices.Contains(tree.Path(queue), s.Queue)
}
