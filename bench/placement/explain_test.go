// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// BenchmarkExplain explains why a gang of 64 Pods with 8 GPUs each does not fit in a
// cluster that is full. With 96 cores for each Pod, CPU is short as well.
func BenchmarkExplain(b *testing.B) {
	for _, nodes := range sizes[:2] {
		c, _ := full(b, nodes, false)
		for _, cores := range []int64{48, 96} {
			shape := shapes[3]
			shape.CPU, shape.Memory = cores*1000, 0
			g := &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: 64, Max: 64}}}
			b.Run(fmt.Sprintf("nodes=%d/cores=%d", nodes, cores), func(b *testing.B) {
				measure(b, func() {
					if e, err := c.Explain(g); err != nil || e == nil {
						b.Fatal(e, err)
					}
				})
			})
		}
	}
}
