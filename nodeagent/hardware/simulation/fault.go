// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
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
	// RecoveryAction makes the driver require Action.
	RecoveryAction Kind = "RecoveryAction"
	// RowRemapPending makes rows of the memory wait for a reset, RowRemapFailure makes
	// replacing a row fail.
	RowRemapPending Kind = "RowRemapPending"
	RowRemapFailure Kind = "RowRemapFailure"
	// FabricNotReady takes the GPU out of the fabric of NVSwitches, and its NVLinks down.
	FabricNotReady Kind = "FabricNotReady"
	// MIG puts the GPU into MIG mode, divided into Slices.
	MIG Kind = "MIG"
	// Recovered ends all faults, as a reset of the GPU does.
	Recovered Kind = "Recovered"
)

func kinds() []Kind {
	return []Kind{XID, ECC, Lost, Hung, Slow, Removed, RecoveryAction, RowRemapPending, RowRemapFailure, FabricNotReady, MIG, Recovered}
}

// kindList lists the kinds: "XID, ECC, …".
func kindList() string {
	names := make([]string, 0, len(kinds()))
	for _, kind := range kinds() {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}

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
	// Action is the action's name, "NodeReboot", for the fault RecoveryAction; "None" for a
	// driver that requires nothing.
	Action string `json:"action,omitempty"`
	// Slices are the profiles of the GPU's slices, "1g.10gb", for the fault MIG; none if it is
	// in MIG mode but not divided yet.
	Slices []string `json:"slices,omitempty"`
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
	case f.Fault == RecoveryAction && f.action() == gpu.ActionUnknown:
		return fmt.Errorf("action: %q is none; the fault %s needs one such as %s", f.Action, RecoveryAction, gpu.ActionNodeReboot)
	case f.Fault != MIG && len(f.Slices) > 0:
		return fmt.Errorf("slices: only the fault %s has slices", MIG)
	case !slices.Contains(kinds(), f.Fault):
		return fmt.Errorf("fault: %q is not one of %s", f.Fault, kindList())
	}
	return nil
}

// action returns the recovery action; ActionUnknown if there is none of that name.
func (f *Fault) action() gpu.Action {
	action, _ := gpu.ParseAction(f.Action)
	return action
}
