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

// Where container runtimes look for specifications: in DefaultDir for those of devices that may
// change, in AdministratorDir for those that an administrator has written.
const (
	DefaultDir       = "/var/run/cdi"
	AdministratorDir = "/etc/cdi"
)

// Name returns the name by which the kubelet passes a device of a kind to the container
// runtime.
func Name(kind, id string) string { return kind + "=" + id }
