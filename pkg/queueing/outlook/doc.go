// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outlook estimates when waiting jobs start, by playing the future several times: how
// long running jobs still run is drawn from what is known about them, those that wait start
// in their order as the scheduler would let them. It is pure, and the same seed gives the same
// estimates.
//
// The simulation counts free GPUs per node and knows models, but not CPU, memory, topology or
// labels: 10,000 waiting jobs take less than a second. Places and the exact time of the first
// few come from package backfill.
package outlook
