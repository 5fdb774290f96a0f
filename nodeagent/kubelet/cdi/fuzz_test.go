// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzNodes has somebody else write any CDI specification. It never keeps the devices of another one
// from being found, and minor numbers are numbers.
func FuzzNodes(f *testing.F) {
	f.Add([]byte(`{"cdiVersion":"0.5.0","kind":"vendor.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia1"},{"path":"/dev/nvidia-caps/nvidia-cap3"}]}}]}`))
	f.Add([]byte("cdiVersion: 0.5.0\nkind: vendor.com/gpu\ndevices: [{name: \"0\", containerEdits: {deviceNodes: [{path: /dev/nvidia-1}, {path: /dev/nvidia+1}]}}]\n"))
	f.Add([]byte(`{"cdiVersion":"0.5.0","kind":"known.com/gpu","devices":[{"name":"0"}]}`))
	f.Add([]byte(`{"cdiVersion":"0.5.0","kind":"v/gpu","devices":[{"name":"0"}]}`))
	f.Add([]byte("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"))
	const known = `{"cdiVersion":"0.5.0","kind":"known.com/gpu","devices":[{"name":"known","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia7"}]}}]}`
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		for name, content := range map[string][]byte{"known.json": []byte(known), "any.yaml": text} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		nodes := NewNodes(dir)
		found := nodes.Of([]string{"vendor.com/gpu=0", "no name", "=", "vendor.com/gpu=", ""})
		for _, minor := range append(found.GPUs, found.Capabilities...) {
			if minor < 0 {
				t.Errorf("the minor number of a device is %d", minor)
			}
		}
		if of := nodes.Of([]string{"known.com/gpu=known"}); len(of.GPUs) > 1 || len(of.GPUs) == 1 && of.GPUs[0] != 7 || len(of.GPUs) == 0 && !bytes.Contains(text, []byte("known")) {
			t.Errorf("a known device brings the GPUs %v", of.GPUs)
		}
	})
}
