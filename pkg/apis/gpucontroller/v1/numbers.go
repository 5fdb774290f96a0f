// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"bytes"

	"k8s.io/apimachinery/pkg/util/json"
)

// numberOrText is text that may also be written as a number: 8 is "8".
type numberOrText string

// UnmarshalJSON takes the digits of a number as they are.
func (n *numberOrText) UnmarshalJSON(value []byte) error {
	if value = bytes.TrimSpace(value); len(value) > 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9') {
		*n = numberOrText(value)
		return nil
	}
	return json.Unmarshal(value, (*string)(n))
}

// UnmarshalJSON reads a spec in which amounts may be numbers.
func (s *GPUTaskSpec) UnmarshalJSON(text []byte) error {
	type fields GPUTaskSpec
	read := struct {
		*fields
		Memory    numberOrText `json:"memory"`
		CPU       numberOrText `json:"cpu"`
		GPUAmount numberOrText `json:"gpu-amount"`
		GPUMemory numberOrText `json:"gpuMemory"`
	}{(*fields)(s), numberOrText(s.Memory), numberOrText(s.CPU), numberOrText(s.GPUAmount), numberOrText(s.GPUMemory)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	s.Memory, s.CPU, s.GPUAmount, s.GPUMemory = string(read.Memory), string(read.CPU), string(read.GPUAmount), string(read.GPUMemory)
	return nil
}

// UnmarshalJSON reads a role in which amounts may be numbers.
func (r *Role) UnmarshalJSON(text []byte) error {
	type fields Role
	read := struct {
		*fields
		Memory    numberOrText `json:"memory"`
		CPU       numberOrText `json:"cpu"`
		GPUAmount numberOrText `json:"gpu-amount"`
		GPUMemory numberOrText `json:"gpuMemory"`
	}{(*fields)(r), numberOrText(r.Memory), numberOrText(r.CPU), numberOrText(r.GPUAmount), numberOrText(r.GPUMemory)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	r.Memory, r.CPU, r.GPUAmount, r.GPUMemory = string(read.Memory), string(read.CPU), string(read.GPUAmount), string(read.GPUMemory)
	return nil
}
