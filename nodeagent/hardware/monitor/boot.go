// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"os"
	"strings"
)

// bootIDFile has a random ID for each boot of the machine.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// BootID returns an ID of the machine's current boot; empty if unknown.
func BootID() string {
	data, err := os.ReadFile(bootIDFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
