// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"testing"
	"testing/fstest"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzFiles reads any text as the driver's list of capabilities and as a NUMA node. A number is one,
// or unknown, and a file of lines without end does not hide what comes before it.
func FuzzFiles(f *testing.F) {
	f.Add([]byte("config 1\nmonitor 2\ngpu1/gi7/ci0/access 4\n"), "gpu1/gi7/ci0/access", "4\n")
	f.Add([]byte("a -2\na +3\na 99999999999999999999\n"), "a", "-1")
	f.Add([]byte(""), "", "0x1")
	f.Fuzz(func(t *testing.T, minors []byte, name, node string) {
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(minors), func() {
			if minor := capabilityIn(minors, name); minor < 0 && minor != gpu.Unknown {
				t.Errorf("capability %q has the minor number %d", name, minor)
			}
		})
		sysFS := fstest.MapFS{"bus/pci/devices/0000:1b:03.0/numa_node": {Data: []byte(node)}}
		if numa := numaNode(sysFS, "00000000:1B:03.0"); numa < 0 && numa != gpu.Unknown {
			t.Errorf("the NUMA node is %d", numa)
		}
	})
}
