// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity names a process in a leader election.
package identity

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// New returns a name that no other process ever has. It starts with the host's name, for
// people who read leases.
func New() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("leader election needs a host name: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}
