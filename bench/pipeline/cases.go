// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
)

// kind is a number of gangs of the same size. A gang of one Pod is a single task.
type kind struct {
	gangs, size int
}

// kinds are what is measured, at full scale.
var kinds = []kind{{500, 20}, {20, 500}, {10_000, 1}}

func (k kind) pods() int { return k.gangs * k.size }

func (k kind) String() string { return fmt.Sprintf("%d×%d", k.gangs, k.size) }

// scaled returns the kind with fewer gangs of the same size, at least one.
func (k kind) scaled(scale float64) kind {
	return kind{gangs: max(1, int(math.Round(float64(k.gangs)*scale))), size: k.size}
}

// named returns the one of kinds with a name.
func named(name string) (kind, error) {
	for _, k := range kinds {
		if k.String() == name {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("must be one of %v, is %q", kinds, name)
}
