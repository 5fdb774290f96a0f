// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prepared

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// names returns the files in a directory, sorted.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

func TestWhatAContainerGetsOfAClaim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := Files{Dir: dir}
	claim := holding("c1", "GPU-a:100", "GPU-b:46", "!GPU-c:1")
	if err := files.Write(claim); err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"gpu.falldio.com/gpu=GPU-a"}, {"gpu.falldio.com/gpu=GPU-b", "gpu.falldio.com/claim=c1-1"}, {"gpu.falldio.com/gpu=GPU-c"},
	}
	for place := range claim.Devices {
		if diff := cmp.Diff(want[place], claim.CDIDevices(place)); diff != "" {
			t.Errorf("CDI devices of device %d (-want +got):\n%s", place, diff)
		}
	}
	// As a container runtime reads them.
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	device := cache.GetDevice("gpu.falldio.com/claim=c1-1")
	if device == nil || !slices.Equal(device.ContainerEdits.Env, []string{"GPU_SHARE_PERCENT=46"}) {
		t.Errorf("the runtime sees %+v of %v, %v", device, cache.ListDevices(), cache.GetErrors())
	}
}

func TestClaimsForWholeGPUsNeedNoFile(t *testing.T) {
	t.Parallel()
	files := Files{Dir: t.TempDir()}
	share, whole := holding("c1", "GPU-a:46"), holding("c1", "GPU-b:100")
	for _, claim := range []Claim{share, whole} { // the second is a later allocation of the first
		if err := files.Write(claim); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, files.Dir); len(got) > 0 {
		t.Errorf("there is %v", got)
	}
	if err := files.Remove("c1"); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
}

func TestNoFileIsLeftBehind(t *testing.T) {
	t.Parallel()
	files := Files{Dir: t.TempDir()}
	for _, name := range []string{
		"gpu.falldio.com-claim_gone.json", "gpu.falldio.com-claim_unfinished.json.tmp", "gpu.falldio.com-claim_now-whole.json",
		"gpu.falldio.com-gpu.json", "falldio.com-gpu.json", "nvidia.yaml", // of others
	} {
		if err := os.WriteFile(filepath.Join(files.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Write(holding("stays", "GPU-a:46")); err != nil {
		t.Fatal(err)
	}
	claims := []Claim{holding("stays", "GPU-a:46"), holding("lost", "GPU-b:46"), holding("now-whole", "GPU-c:100")}
	for range 2 { // and a second time
		if err := files.Reconcile(claims); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"falldio.com-gpu.json", "gpu.falldio.com-claim_lost.json", "gpu.falldio.com-claim_stays.json", "gpu.falldio.com-gpu.json", "nvidia.yaml",
		}
		if diff := cmp.Diff(want, names(t, files.Dir)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
	missing := Files{Dir: filepath.Join(files.Dir, "not", "there")}
	if err := missing.Reconcile(nil); err != nil {
		t.Errorf("without the directory: %v", err)
	}
	if err := missing.Reconcile(claims); err != nil || len(names(t, missing.Dir)) != 2 {
		t.Errorf("the directory is not created: %v", err)
	}
}
