// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory defines what node agent and scheduler exchange: the GPUs of a node, in
// an annotation of the Node, and the GPUs of a Pod, in an annotation of the Pod. Both are
// versioned JSON; a reader rejects a version that it does not know and ignores unknown
// fields.
package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Annotation is the annotation of a Node that holds its Inventory.
const Annotation = "falldio.com/gpu-inventory"

// Version is the version of both formats.
const Version = "v1"

// MaxBytes bounds what Parse accepts. All annotations of an object together must
// stay under 256 KiB: k8s.io/apimachinery/pkg/api/validation.
const MaxBytes = 256 << 10

// Inventory is a node's GPUs. It changes only when they or their health do.
type Inventory struct {
	Version string `json:"version"`
	GPUs    []GPU  `json:"gpus"`
}

// Health of a GPU.
const (
	Healthy   = "Healthy"
	Unhealthy = "Unhealthy"
)

// GPU is one of a node's GPUs.
type GPU struct {
	// Index numbers the node's GPUs from 0.
	Index int `json:"index"`
	// UUID is the GPU's identity, and the ID of its device in the kubelet.
	UUID string `json:"uuid"`
	// Model is the value of the node label falldio.com/gpu for this GPU.
	Model string `json:"model"`
	// MemoryMiB is all of the GPU's memory.
	MemoryMiB int64 `json:"memoryMiB"`
	// NVLinkGroup is the same number for GPUs that reach each other over NVLink;
	// nil without NVLink.
	NVLinkGroup *int `json:"nvlinkGroup,omitempty"`
	// NUMANode is the NUMA node that the GPU is attached to; nil if unknown.
	NUMANode *int `json:"numaNode,omitempty"`
	// MIG is true if the GPU is in MIG mode, divided into instances: it can't be given away
	// as a whole.
	MIG bool `json:"mig,omitempty"`
	// Slices are its MIG devices, if it is in MIG mode: those that programs can be given. They
	// are in the driver's order. Their health is that of the GPU.
	Slices []Slice `json:"slices,omitempty"`
	// Health is Healthy or Unhealthy.
	Health string `json:"health"`
	// Fault describes the problem of an unhealthy GPU.
	Fault *Fault `json:"fault,omitempty"`
	// PastFaults are when the GPU became unhealthy because of its own errors, the present
	// fault included, to the second and the oldest first: at most MaxPastFaults. The agent
	// counts them; those that it no longer counts stay until the next fault.
	PastFaults []time.Time `json:"pastFaults,omitempty"`
}

// Slice is a MIG device: a part of a GPU that programs use like a GPU of its own.
type Slice struct {
	// UUID is the MIG device's identity, "MIG-…", and the ID of its device in the kubelet.
	UUID string `json:"uuid"`
	// Profile is its size in NVIDIA's notation, "1g.10gb" or "1g.10gb+me". The kubelet offers
	// it under the name that v1.MIGResource returns.
	Profile string `json:"profile"`
	// MemoryMiB is the memory that it has.
	MemoryMiB int64 `json:"memoryMiB"`
}

// MaxPastFaults bounds GPU.PastFaults for those who write it. Who reads it needs no bound but
// MaxBytes.
const MaxPastFaults = 20

// Fault is why a GPU is unhealthy.
type Fault struct {
	// Reason is one word: XID79, Lost, ECC or Hung.
	Reason string `json:"reason"`
	// Since is when it was detected, to the second.
	Since time.Time `json:"since"`
	// RecoveryAction is what the driver requires, by NVIDIA's name in CamelCase: GPUReset,
	// NodeReboot, DrainP2P, DrainAndReset, RecoverIMEXDomain, BusReset, SystemReboot, or
	// Unknown8 for one that the agent does not know; empty if nothing is required, or the
	// driver does not report it.
	RecoveryAction string `json:"recoveryAction,omitempty"`
	// NeedsReset is true until a reset of the GPU has been observed. It can be true without
	// a RecoveryAction: the agent may require a reset when the driver does not.
	NeedsReset bool `json:"needsReset,omitempty"`
	// Repeated says how often the GPU has failed, "3 times in 24h", if that is why it needs
	// a reset.
	Repeated string `json:"repeated,omitempty"`
	// BootID is the machine's boot during which the need for a reset or another action was
	// detected.
	BootID string `json:"bootID,omitempty"`
	// ResetCounters are counters that a reset sets back, by name, with their values when
	// the need for a reset was detected. They are not updated.
	ResetCounters map[string]float64 `json:"resetCounters,omitzero"`
}

// Parse parses the annotation's value.
func Parse(text string) (*Inventory, error) {
	inventory := &Inventory{}
	if err := decode(Annotation, text, inventory); err != nil {
		return nil, err
	}
	if err := inventory.validate(); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	return inventory, nil
}

func (i *Inventory) validate() error {
	if i.Version != Version {
		return unknownVersion(i.Version)
	}
	seen := make(map[string]bool, len(i.GPUs))
	for place := range i.GPUs {
		gpu := &i.GPUs[place]
		switch {
		case gpu.UUID == "":
			return fmt.Errorf("gpus[%d].uuid is missing", place)
		case seen[gpu.UUID]:
			return fmt.Errorf("gpus[%d].uuid %q is listed twice", place, gpu.UUID)
		case gpu.Index < 0:
			return fmt.Errorf("gpus[%d].index is %d, must not be negative", place, gpu.Index)
		case gpu.MemoryMiB < 0:
			return fmt.Errorf("gpus[%d].memoryMiB is %d, must not be negative", place, gpu.MemoryMiB)
		case gpu.Health != Healthy && gpu.Health != Unhealthy:
			return fmt.Errorf("gpus[%d].health is %q, must be %s or %s", place, gpu.Health, Healthy, Unhealthy)
		}
		if err := gpu.Fault.validate(); err != nil {
			return fmt.Errorf("gpus[%d].fault.%w", place, err)
		}
		seen[gpu.UUID] = true
		for number := range gpu.Slices {
			if err := gpu.Slices[number].validate(seen); err != nil {
				return fmt.Errorf("gpus[%d].slices[%d].%w", place, number, err)
			}
		}
	}
	return nil
}

// validate returns what is wrong with a slice, and adds it to those that were seen.
func (s *Slice) validate(seen map[string]bool) error {
	switch {
	case s.UUID == "":
		return errors.New("uuid is missing")
	case seen[s.UUID]:
		return fmt.Errorf("uuid %q is listed twice", s.UUID)
	case s.Profile == "":
		return errors.New("profile is missing")
	case s.MemoryMiB < 0:
		return fmt.Errorf("memoryMiB is %d, must not be negative", s.MemoryMiB)
	}
	seen[s.UUID] = true
	return nil
}

func (f *Fault) validate() error {
	if f == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(f.ResetCounters)) {
		if value := f.ResetCounters[name]; value < 0 {
			return fmt.Errorf("resetCounters[%s] is %v, must not be negative", name, value)
		}
	}
	return nil
}

// String returns the annotation's value. Equal inventories give equal values.
func (i Inventory) String() (string, error) {
	i.Version = Version
	return encode(i)
}

func unknownVersion(version string) error {
	return fmt.Errorf("version is %q, this program knows %q", version, Version)
}

func decode(annotation, text string, into any) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("annotation %s: has %d bytes, at most %d are read", annotation, len(text), MaxBytes)
	}
	if text == "" {
		return fmt.Errorf("annotation %s: %w", annotation, errors.New("is empty"))
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("annotation %s: %w", annotation, err)
	}
	return nil
}

func encode(value any) (string, error) {
	data, err := json.Marshal(value)
	return string(data), err
}

// CordonAnnotation is the annotation of a Node that lists GPUs of which no Pod gets any more, by index or UUID,
// separated by commas. People write it, before maintenance.
const CordonAnnotation = "falldio.com/cordoned-gpus"

// Cordon is GPUs that are cordoned, by index or UUID.
type Cordon []string

// ParseCordon reads a CordonAnnotation. What is no GPU of the node has no effect.
func ParseCordon(text string) Cordon {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// Has reports whether a GPU is cordoned.
func (c Cordon) Has(gpu *GPU) bool {
	return slices.Contains(c, strconv.Itoa(gpu.Index)) || c.HasUUID(gpu.UUID)
}

// HasUUID reports whether the GPU with a UUID is cordoned by it.
func (c Cordon) HasUUID(uuid string) bool { return slices.Contains(c, uuid) }
