// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAShareIsLimitedWhileTheMPSDaemonRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	devices := gpus("a", "b")
	devices[0].MemoryMiB = 81559
	s := sharesService(poolOf(t, devices), nil)
	s.allocator = (&Config{EnvVar: "VISIBLE", Sharing: &Sharing{MPSPipeDirectory: dir}}).allocator()
	without := []string{"GPU_SHARE_PERCENT=46", "VISIBLE=a"}
	limited := []string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=46", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=37517M", "CUDA_MPS_PIPE_DIRECTORY=" + dir}
	steps := []struct {
		what string
		do   func() error
		gpu  string
		want []string
		// mounted is true if the directory is mounted.
		mounted bool
	}{
		{"a daemon that does not run sets no limits", func() error { return nil }, "a", without, false},
		{"a daemon that runs does", func() error { return os.WriteFile(filepath.Join(dir, "control"), nil, 0o600) }, "a",
			append(slices.Clone(limited), without...), true},
		{"memory of unknown size has no limit", func() error { return nil }, "b",
			[]string{limited[0], limited[2], "GPU_SHARE_PERCENT=46", "VISIBLE=b"}, true},
		{"a daemon that has ended sets no limits", func() error { return os.Remove(filepath.Join(dir, "control")) }, "a", without, false},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		response, err := allocate(t, s, sharesOf(step.gpu, 0, 46))
		if err != nil {
			t.Fatal(err)
		}
		got := given(response)
		slices.Sort(got)
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
		mounts := response.ContainerResponses[0].Mounts
		if mounted := len(mounts) == 1 && mounts[0].HostPath == dir && mounts[0].ContainerPath == dir && !mounts[0].ReadOnly; mounted != step.mounted {
			t.Errorf("%s: mounts %v", step.what, mounts)
		}
	}
}
