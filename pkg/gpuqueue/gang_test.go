// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

func TestLimitsConfineAGang(t *testing.T) {
	t.Parallel()
	h100 := placement.Shape{GPUs: 2, Models: []string{"h100"}}
	anyModel := placement.Shape{GPUs: 2}
	slice := placement.Shape{Others: placement.Amounts{{Resource: "falldio.com/mig-1g.10gb", Value: 7}}, Models: []string{"h100"}}
	tests := map[string]struct {
		roles    []placement.Role
		exceeded bool
		// most are the members that may start, by role.
		most []int
		full []string
	}{
		"there is room for all":                           {roles: []placement.Role{{Shape: h100, Min: 1, Max: 2}}, most: []int{2}},
		"there is room for the minimum":                   {roles: []placement.Role{{Shape: h100, Min: 2, Max: 4}}, most: []int{2}},
		"slices are parts of GPUs":                        {roles: []placement.Role{{Shape: slice, Min: 2, Max: 4}}, most: []int{4}},
		"slices that are more than the limit":             {roles: []placement.Role{{Shape: slice, Min: 5, Max: 5}}, exceeded: true},
		"not even the minimum fits":                       {roles: []placement.Role{{Shape: h100, Min: 3, Max: 3}}, exceeded: true},
		"a role of optional members only is left out":     {roles: []placement.Role{{Shape: h100, Min: 2, Max: 2}, {Shape: h100, Min: 0, Max: 1}}, most: []int{2, 0}},
		"models whose quota is used up are not for it":    {roles: []placement.Role{{Shape: anyModel, Min: 2, Max: 2}}, most: []int{2}, full: []string{"a100"}},
		"of all models together there is not room enough": {roles: []placement.Role{{Shape: anyModel, Min: 4, Max: 4}}, exceeded: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := func(gpus int) queueing.Quota { return queueing.Quota{Limit: queueing.Amount(gpus) * queueing.GPU} }
			ledger := queueing.NewLedger(queueing.NewTree([]queueing.Queue{{Name: "vision", Quotas: map[string]queueing.Quota{
				queueing.AnyModel: limit(7), "h100": limit(4), "a100": limit(1),
			}}}))
			ledger.Add("vision", "a100", queueing.GPU)
			gang := &placement.Gang{Roles: test.roles}
			full, exceeded := Confine(ledger, "vision", gang)
			if (exceeded != nil) != test.exceeded {
				t.Fatalf("exceeds %v, want %t", exceeded, test.exceeded)
			}
			if exceeded != nil {
				return
			}
			var got []int
			for _, role := range gang.Roles {
				got = append(got, role.Max)
			}
			if !slices.Equal(got, test.most) || !slices.Equal(full, test.full) {
				t.Errorf("at most %v without %v, want %v without %v", got, full, test.most, test.full)
			}
			if err := gang.Validate(); err != nil {
				t.Errorf("the engine refuses the gang: %v", err)
			}
		})
	}
}
