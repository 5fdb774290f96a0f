// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind is the kind of a fault of a simulated GPU.
type Kind string

// The kinds of faults.
const (
	// XID makes the driver report the error of this number.
	XID Kind = "XID"
	// ECC adds an uncorrectable memory error.
	ECC Kind = "ECC"
	// Lost makes the GPU stop answering, as one that fell off the bus.
	Lost Kind = "Lost"
	// Hung makes calls about the GPU not return.
	Hung Kind = "Hung"
	// Slow makes calls about the GPU take longer, by Delay.
	Slow Kind = "Slow"
	// Removed takes the GPU out of the machine.
	Removed Kind = "Removed"
	// Recovered ends all faults, as a reset of the GPU does.
	Recovered Kind = "Recovered"
)

// Fault is a fault to inject.
type Fault struct {
	// Node is needed only where one process simulates the GPUs of many nodes.
	Node string `json:"node,omitempty"`
	// GPU is the index of the GPU; all of the node's if omitted.
	GPU *int `json:"gpu,omitempty"`
	// Fault is the kind of fault.
	Fault Kind `json:"fault"`
	// XID is the error's number, for the fault XID.
	XID uint64 `json:"xid,omitempty"`
	// Delay is how much longer each call takes, for the fault Slow.
	Delay metav1.Duration `json:"delay,omitzero"`
}

// validate returns an error that names the invalid field.
func (f *Fault) validate(gpus int) error {
	switch {
	case f.GPU != nil && (*f.GPU < 0 || *f.GPU >= gpus):
		return fmt.Errorf("gpu: there is no GPU %d, the node has %d, counted from 0", *f.GPU, gpus)
	case f.Fault == XID && f.XID == 0:
		return fmt.Errorf("xid: the fault %s needs the number of the error", XID)
	case f.Fault == Slow && f.Delay.Duration <= 0:
		return fmt.Errorf("delay: the fault %s needs a delay such as 200ms", Slow)
	}
	switch f.Fault {
	case XID, ECC, Lost, Hung, Slow, Removed, Recovered:
		return nil
	default:
		return fmt.Errorf("fault: %q is not one of %s, %s, %s, %s, %s, %s, %s", f.Fault, XID, ECC, Lost, Hung, Slow, Removed, Recovered)
	}
}
