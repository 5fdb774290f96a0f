// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Least returns the GPUs that a gang must get to start, by model. Those of roles that accept several models count
// as of any.
func Least(gang *placement.Gang) queueing.Amounts {
	return amountsOf(gang, func(role *placement.Role) int { return role.Min })
}

// most returns the GPUs that a gang takes if there is room.
func most(gang *placement.Gang) queueing.Amounts {
	return amountsOf(gang, func(role *placement.Role) int { return role.Max })
}

func amountsOf(gang *placement.Gang, count func(*placement.Role) int) queueing.Amounts {
	amounts := queueing.Amounts{}
	for i := range gang.Roles {
		role := &gang.Roles[i]
		if percent := snapshot.GPUPercent(&role.Shape) * count(role); percent > 0 {
			amounts[OnlyModel(role.Shape.Models)] += queueing.Amount(percent)
		}
	}
	return amounts
}

// OnlyModel returns the only model of those that a Pod accepts; AnyModel if there may be several.
func OnlyModel(models []string) string {
	if len(models) == 1 {
		return models[0]
	}
	return queueing.AnyModel
}

// toLeast confines a gang to the members that it needs to start.
func toLeast(gang *placement.Gang) {
	gang.Roles = slices.Clone(gang.Roles)
	for i := range gang.Roles {
		gang.Roles[i].Max = gang.Roles[i].Min
	}
}

// Confine confines a gang to what the limits of its queue leave. If that is too little for it to start, it
// returns the limit that is exceeded. The gang loses members above its minimum if there is no room for
// all of them within the limits; and full are the models of which the queue must not hold what the gang takes of
// any model: their nodes are not for the gang.
func Confine(ledger *queueing.Ledger, queue string, gang *placement.Gang) (full []string, exceeded *queueing.Excess) {
	exceeded = ledger.Fits(queue, Least(gang))
	if ledger.Fits(queue, most(gang)) != nil {
		toLeast(gang)
	}
	if anyModel := most(gang)[queueing.AnyModel]; anyModel > 0 {
		full = ledger.Full(queue, anyModel)
	}
	return full, exceeded
}
