// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// migMinors is the file below /proc in which the driver lists the device files that grant access
// to parts of GPUs: "gpu0/gi7/ci0/access 67" stands for /dev/nvidia-caps/nvidia-cap67. It has a
// line for all that there can be.
const migMinors = "driver/nvidia-caps/mig-minors"

// capability returns the number of the device file that grants access to a MIG device; unknown
// if the driver does not list it.
func (s *session) capability(minor, gpuInstance, computeInstance int) int {
	content, err := fs.ReadFile(s.ProcFS, migMinors)
	if err != nil {
		return gpu.Unknown
	}
	return capabilityIn(content, fmt.Sprintf("gpu%d/gi%d/ci%d/access", minor, gpuInstance, computeInstance))
}

func capabilityIn(content []byte, name string) int {
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		listed, number, _ := strings.Cut(lines.Text(), " ")
		if listed != name {
			continue
		}
		if minor, err := strconv.Atoi(strings.TrimSpace(number)); err == nil && minor >= 0 {
			return minor
		}
	}
	return gpu.Unknown
}
