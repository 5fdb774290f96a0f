// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strconv"
	"strings"
)

// CordonAnnotation is the annotation of a Node that lists GPUs of which no Pod gets any more, by index or UUID, separated by commas.
// People write it, before maintenance.
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
