// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const percent = "falldio.com/gpu-percent"

// recorded is a file of the kubelet 1.37, shortened.
const recorded = `{"Data":{"PodDeviceEntries":[
{"PodUID":"uid-1","ContainerName":"gpu-task","ResourceName":"falldio.com/gpu-percent","DeviceIDs":{"0":["GPU-a::1","GPU-a::0"],"1":["GPU-a::0"]},"AllocResp":"ChcKEUdQVV9TSEFSRV9QRVJDRU5UEgIyMQ=="},
{"PodUID":"uid-1","ContainerName":"gpu-task","ResourceName":"falldio.com/rdma","DeviceIDs":{"-1":["rdma-0"]},"AllocResp":""},
{"PodUID":"uid-2","ContainerName":"gpu-task","ResourceName":"falldio.com/gpu-percent","DeviceIDs":{"-1":["GPU-b::7"]},"AllocResp":""}],
"RegisteredDevices":{"falldio.com/gpu-percent":["GPU-a::0","GPU-a::1","GPU-b::7"]}},"Checksum":3012187132}`

func TestRead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		content string
		want    map[Key]Answer
		problem string
	}{
		"the answers about the resource": {recorded, map[Key]Answer{
			{"uid-1", "gpu-task", percent}: {
				[]string{"GPU-a::0", "GPU-a::1"}, &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"GPU_SHARE_PERCENT": "21"}},
			},
			{"uid-2", "gpu-task", percent}: {[]string{"GPU-b::7"}, &pluginapi.ContainerAllocateResponse{}},
		}, ""},
		"there are none":        {`{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}`, map[Key]Answer{}, ""},
		"another format":        {`{"Version":3}`, map[Key]Answer{}, ""},
		"no JSON":               {`{`, nil, "unexpected end of JSON input"},
		"an answer that is not": {strings.Replace(recorded, `"ChcK`, `"////`, 1), nil, "container gpu-task of Pod uid-1: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			if err := os.WriteFile(filepath.Join(directory, "kubelet_internal_checkpoint"), []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Read(directory, percent)
			if test.problem == "" && err != nil || test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)) {
				t.Fatalf("error %v, want %q", err, test.problem)
			}
			if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFileThatIsMissing(t *testing.T) {
	t.Parallel()
	if _, err := Read(t.TempDir(), percent); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
