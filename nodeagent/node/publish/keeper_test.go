// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
)

// What was kept before must not count: a GPU that has broken since would be offered.
func TestAnInventoryThatCanNotBeKeptIsKeptLater(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kept.json")
	keeper := NewKeeper(path, labels.Options{})
	device := gpu.Device{Info: gpu.Info{UUID: "GPU-1"}}
	healthy := &gpu.Snapshot{Taken: time.Unix(1, 0), Devices: []gpu.Device{device}}
	device.Fault = &gpu.Fault{Reason: "XID79", Since: time.Unix(1, 0)}
	broken := &gpu.Snapshot{Taken: time.Unix(2, 0), Devices: []gpu.Device{device}}
	if err := keeper.keep(healthy); err != nil {
		t.Fatal(err)
	}
	inTheWay := path + ".tmp"
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := keeper.keep(broken); err == nil {
			t.Error("no error although the file can't be written")
		}
		if _, err := keeper.Histories(); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what is out of date is still there: %v", err)
		}
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := keeper.keep(broken); err != nil {
		t.Fatal(err)
	}
	histories, err := keeper.Histories()
	if err != nil || histories["GPU-1"].Fault == nil {
		t.Errorf("kept: %v, %v", histories, err)
	}
}
