// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// claim is a device of some driver, and a Pod that claims one.
const claim = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: adapter.example.com}
spec:
  selectors: [{cel: {expression: device.driver == 'adapter.example.com'}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: adapters}
spec:
  driver: adapter.example.com
  nodeName: h100-1
  pool: {name: h100-1, generation: 1, resourceSliceCount: 1}
  devices: [{name: adapter-7}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: adapter}
spec:
  spec:
    devices:
      requests: [{name: adapter, exactly: {deviceClassName: adapter.example.com}}]
---
apiVersion: v1
kind: Pod
metadata: {name: claims}
spec:
  resourceClaims: [{name: adapter, resourceClaimTemplateName: adapter}]
  containers:
    - name: main
      image: example.com/main:v1
      resources: {claims: [{name: adapter}]}
`

// testClaims has gpu-scheduler, whose plugin for claims is its own, allocate a device.
func (c *testCluster) testClaims(t *testing.T) {
	file := filepath.Join(t.TempDir(), "claim.yaml")
	if err := os.WriteFile(file, []byte(claim), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, "apply", "--filename="+file)
	c.eventually(t, "the Pod runs with its device on the device's node", func() (bool, string) {
		pod := c.kubectl(t, "get", "pod", "claims", "--output=jsonpath={.status.phase} {.spec.nodeName}")
		device := c.kubectl(t, "get", "resourceclaims", "--output=jsonpath={.items[*].status.allocation.devices.results[*].device}")
		return pod == "Running h100-1" && strings.TrimSpace(device) == "adapter-7", pod + ", device " + device
	})
}
