// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// TestTheDRADriverDescribesDevicesOfItsOwn has the agent and the DRA driver describe the same
// GPU, as a container runtime reads it.
func TestTheDRADriverDescribesDevicesOfItsOwn(t *testing.T) {
	t.Parallel()
	dir, clock := t.TempDir(), clocktesting.NewFakeClock(time.Unix(1, 0))
	snapshot := &gpu.Snapshot{Taken: time.Unix(1, 0), Devices: []gpu.Device{{Info: gpu.Info{UUID: "GPU-a"}}}}
	for _, writer := range []*Writer{NewWriter(dir, &fakeGenerator{}, clock), NewWriterOf(DRADriver(), dir, &fakeGenerator{}, clock)} {
		if err := writer.Update(snapshot); err != nil {
			t.Fatal(err)
		}
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	devices := cache.ListDevices()
	slices.Sort(devices)
	if diff := cmp.Diff([]string{"falldio.com/gpu=GPU-a", "gpu.falldio.com/gpu=GPU-a"}, devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s%v", diff, cache.GetErrors())
	}
}

func TestEachOwnerRemovesItsOwnFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{
		"falldio.com-gpu.json", "gpu.falldio.com-gpu.json", "gpu.falldio.com-claim_1.json", "gpu.falldio.com-claim_2.json.tmp",
		"gpu.falldio.com-notes.txt", "nvidia.yaml",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := DRADriver().RemoveFiles(dir); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	if diff := cmp.Diff([]string{"falldio.com-gpu.json", "gpu.falldio.com-notes.txt", "nvidia.yaml"}, left); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	if err := DRADriver().RemoveFiles(filepath.Join(dir, "not there")); err != nil {
		t.Errorf("without the directory: %v", err)
	}
}
