// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

// The kind of the devices that this package describes: its vendor, its class, and both
// together.
const (
	Vendor = "falldio.com"
	Class  = "gpu"
	Kind   = Vendor + "/" + Class
)

// DefaultDir is where container runtimes look for the specifications of devices that may
// change. /etc/cdi is for those that an administrator has written.
const DefaultDir = "/var/run/cdi"

// Name returns the name by which the kubelet passes a device of a kind to the container
// runtime.
func Name(kind, id string) string { return kind + "=" + id }
