// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// mounted renders a container's mounts as "HOST:CONTAINER".
func mounted(response *pluginapi.AllocateResponse) string {
	var words []string
	for _, mount := range response.ContainerResponses[0].Mounts {
		word := mount.HostPath + ":" + mount.ContainerPath
		if mount.ReadOnly {
			word += ":ro"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestAShareIsLimitedWhileTheMPSDaemonRuns(t *testing.T) {
	t.Parallel()
	devices := gpus("a", "b")
	devices[0].MemoryMiB = 81559
	runs := false
	daemon := &MPS{PipeDirectory: "/run/mps", Runs: func() bool { return runs }}
	withShm := &MPS{PipeDirectory: "/run/mps", ShmDirectory: "/run/mps-shm", Runs: daemon.Runs}
	without := []string{"GPU_SHARE_PERCENT=46", "VISIBLE=a"}
	threads, memory, pipes := "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=46", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=37517M", "CUDA_MPS_PIPE_DIRECTORY=/run/mps"
	limited := append([]string{threads, memory, pipes}, without...)
	const pipeMount = "/run/mps:/run/mps"
	tests := []struct {
		what   string
		mps    *MPS
		runs   bool
		gpu    string
		want   []string
		mounts string
	}{
		{"without MPS there are no limits", nil, false, "a", without, ""},
		{"a daemon that does not run sets no limits", daemon, false, "a", without, ""},
		{"a daemon that runs does", daemon, true, "a", limited, pipeMount},
		{"memory of unknown size has no limit", daemon, true, "b", []string{threads, pipes, "GPU_SHARE_PERCENT=46", "VISIBLE=b"}, pipeMount},
		{"its shared memory is mounted", withShm, true, "a", limited, pipeMount + " /run/mps-shm:/dev/shm"},
		{"a daemon that has ended sets no limits", withShm, false, "a", without, ""},
	}
	for _, test := range tests {
		s := sharesService(poolOf(t, devices), nil)
		s.allocator = (&Config{EnvVar: "VISIBLE", Sharing: &Sharing{MPS: test.mps}}).allocator()
		runs = test.runs
		response, err := allocate(t, s, sharesOf(test.gpu, 0, 46))
		if err != nil {
			t.Fatal(err)
		}
		got := given(response)
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.what, diff)
		}
		if diff := cmp.Diff(test.mounts, mounted(response)); diff != "" {
			t.Errorf("%s: mounts (-want +got):\n%s", test.what, diff)
		}
		if client := IsMPSClient(response.ContainerResponses[0]); client != (test.mps != nil && test.runs) {
			t.Errorf("%s: taken for a client: %v", test.what, client)
		}
	}
}
