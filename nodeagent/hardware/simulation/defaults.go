// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults are those of an HGX H100.
const (
	defaultProduct           = "NVIDIA H100 80GB HBM3"
	defaultCount             = 8
	defaultDriver            = "570.124.06"
	defaultCUDA              = "12.8"
	defaultComputeCapability = "9.0"
	defaultPowerLimitWatts   = 700
	defaultNUMANodes         = 2
	defaultLinks             = 18
	defaultPeriod            = 10 * time.Minute
)

func (p *Profile) setDefaults() {
	orDefault(&p.Product, defaultProduct)
	orDefault(&p.Count, new(defaultCount))
	orDefault(&p.Memory, resource.NewQuantity(81559<<20, resource.BinarySI))
	orDefault(&p.Driver, defaultDriver)
	orDefault(&p.CUDA, defaultCUDA)
	orDefault(&p.ComputeCapability, defaultComputeCapability)
	orDefault(&p.PowerLimitWatts, defaultPowerLimitWatts)
	orDefault(&p.NUMANodes, defaultNUMANodes)
	orDefault(&p.NVLink, &NVLink{GroupSize: max(*p.Count, 0)})
	if p.NVLink.GroupSize > 0 {
		orDefault(&p.NVLink.Links, defaultLinks)
	}
	p.Load.setDefaults()
}

func (l *Load) setDefaults() {
	orDefault(&l.Period, &metav1.Duration{Duration: defaultPeriod})
	orDefault(&l.Utilization, &Range{Low: 0.2, High: 0.9})
	orDefault(&l.Memory, &Range{Low: 0.3, High: 0.4})
}

func orDefault[T comparable](field *T, value T) { *field = cmp.Or(*field, value) }
