// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// Remedy says what an operator has to do about a fault: "the driver requires a reboot of the
// node"; empty if the GPU becomes healthy by itself, or nothing is known.
func Remedy(fault *gpu.Fault) string {
	var sentences []string
	if sentence := remedyOf(fault.Reason); sentence != "" {
		sentences = append(sentences, sentence)
	}
	if fault.Action.Required() {
		sentences = append(sentences, fault.Action.Sentence())
	}
	switch {
	case fault.Repeated != "":
		sentences = append(sentences, "it has failed "+fault.Repeated+" and must be reset before it is used again")
	case fault.NeedsReset && !fault.Action.EndedByReset():
		sentences = append(sentences, "it must be reset before it is used again")
	}
	return strings.Join(sentences, "; ")
}

// remedyOf returns what the reason alone tells an operator to do.
func remedyOf(reason string) string {
	switch reason {
	case ReasonRowRemapFailure:
		return "the GPU must be replaced, as its memory has no spare rows left"
	case ReasonFabricNotReady:
		return "it has not joined the NVLink fabric yet, which takes a running Fabric Manager"
	case ReasonFabricFailed:
		return "it could not join the NVLink fabric; the log of Fabric Manager says why"
	default:
		return ""
	}
}

// ReplaceGPU is what has to be done about a GPU that no reset and no boot heals. The other names
// are those of the driver's actions.
const ReplaceGPU = "ReplaceGPU"

// replacementSeverity ranks a replacement above all actions of the driver.
const replacementSeverity = 100

// Required returns the name of the most severe thing that has to be done about a fault, and its
// severity: see gpu.Action. The name is empty and the severity 0 if nothing has to be done.
func Required(fault *gpu.Fault) (name string, severity int) {
	required := fault.Action
	if fault.NeedsReset && required.Severity() < gpu.ActionGPUReset.Severity() {
		required = gpu.ActionGPUReset
	}
	switch {
	case fault.Reason == ReasonRowRemapFailure:
		return ReplaceGPU, replacementSeverity
	case required.Required():
		return required.String(), required.Severity()
	default:
		return "", 0
	}
}
