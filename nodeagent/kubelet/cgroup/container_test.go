// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"strings"
	"testing"
)

const (
	id    = "8f3b5c2d1e4a69788796a5b4c3d2e1f08f3b5c2d1e4a69788796a5b4c3d2e1f0"
	other = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	uid   = "2f6b1c5e-8a1d-4f0b-9c3e-5d7e9f1a2b3c"
	// slice is the UID in the name of a slice, static the checksum that a static Pod has.
	slice  = "2f6b1c5e_8a1d_4f0b_9c3e_5d7e9f1a2b3c"
	static = "0123456789abcdef0123456789abcdef"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		content string
		want    Container
		found   bool
	}{
		"containerd, systemd, version 2, guaranteed": {
			"0::/kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + id + ".scope\n", Container{id, uid}, true,
		},
		"containerd, systemd, version 2, burstable": {
			"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/cri-containerd-" + id + ".scope\n", Container{id, uid}, true,
		},
		"containerd, systemd, version 2, best effort": {
			"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice/cri-containerd-" + id + ".scope\n", Container{id, uid}, true,
		},
		"containerd, cgroupfs, version 2": {
			"0::/kubepods/burstable/pod" + uid + "/" + id + "\n", Container{id, uid}, true,
		},
		"CRI-O, systemd": {
			"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice/crio-" + id + ".scope\n", Container{id, uid}, true,
		},
		"CRI-O, systemd, with a group of its own for the processes": {
			"0::/kubepods.slice/kubepods-pod" + slice + ".slice/crio-" + id + ".scope/container\n", Container{id, uid}, true,
		},
		"CRI-O, cgroupfs": {
			"0::/kubepods/pod" + uid + "/crio-" + id + "\n", Container{id, uid}, true,
		},
		"cri-dockerd, systemd": {
			"0::/kubepods.slice/kubepods-pod" + slice + ".slice/docker-" + id + ".scope\n", Container{id, uid}, true,
		},
		"version 1, with a line for each controller": {
			"12:pids:/kubepods/burstable/pod" + uid + "/" + id + "\n11:memory:/kubepods/burstable/pod" + uid + "/" + id + "\n" +
				"1:name=systemd:/kubepods/burstable/pod" + uid + "/" + id + "\n",
			Container{id, uid}, true,
		},
		"both versions, with the container in version 1 only": {
			"12:pids:/kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + id + ".scope\n0::/system.slice/containerd.service\n", Container{id, uid}, true,
		},
		"version 1, with a controller for which there is no group": {
			"13:rdma:/\n12:misc:/kubepods.slice/kubepods-pod" + slice + ".slice\n11:pids:/kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + id + ".scope\n",
			Container{id, uid}, true,
		},
		"a slice that is a name for containerd without systemd": {
			"0::/system.slice/containerd.service/kubepods-burstable-pod" + slice + ".slice:cri-containerd:" + id + "\n", Container{id, uid}, true,
		},
		"the kubelet has a group of its own above": {
			"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + slice + ".slice/cri-containerd-" + id + ".scope\n", Container{id, uid}, true,
		},
		"a node that is a container": {
			"0::/docker/" + other + "/kubelet/kubepods/besteffort/pod" + uid + "/" + id + "\n", Container{id, uid}, true,
		},
		"a container in a container": {
			"0::/kubepods/burstable/pod" + uid + "/" + id + "/docker/" + other + "\n", Container{id, uid}, true,
		},
		"systemd in a container": {
			"0::/kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + id + ".scope/system.slice/app.service\n", Container{id, uid}, true,
		},
		"a static Pod": {
			"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + static + ".slice/cri-containerd-" + id + ".scope\n", Container{id, static}, true,
		},
		"seen from a container of another Pod, in a cgroup namespace": {
			"0::/../../kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice/cri-containerd-" + id + ".scope\n", Container{id, uid}, true,
		},
		"seen from a container of the same Pod, in a cgroup namespace": {
			"0::/../cri-containerd-" + id + ".scope\n", Container{ID: id}, true,
		},
		"in a Pod, in none of its containers": {
			"0::/kubepods.slice/kubepods-pod" + slice + ".slice\n", Container{Pod: uid}, true,
		},
		"a container that Kubernetes does not know": {
			"0::/system.slice/docker-" + id + ".scope\n", Container{ID: id}, true,
		},
		"seen from the same container, in a cgroup namespace": {"0::/\n", Container{}, false},
		"a service":                               {"0::/system.slice/nvidia-persistenced.service\n", Container{}, false},
		"a user's session":                        {"0::/user.slice/user-1000.slice/session-3.scope\n", Container{}, false},
		"names that only look like it":            {"0::/pod-tools/podman-" + id[:63] + ".scope/deadbeef\n", Container{}, false},
		"a process that has ended":                {"", Container{}, false},
		"what is no list of groups":               {"kubepods\n/pod" + uid + "/" + id + "\n", Container{}, false},
		"no newline at the end":                   {"0::/kubepods/pod" + uid + "/" + id, Container{id, uid}, true},
		"a group that is gone, of a dead process": {"0::/kubepods/pod" + uid + "/" + id + " (deleted)\n", Container{Pod: uid}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, found := Parse(test.content)
			if got != test.want || found != test.found {
				t.Errorf("%+v, %v, want %+v, %v", got, found, test.want, test.found)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0::/kubepods/pod" + uid + "/" + id)
	f.Add("12:pids:/../" + id + "\n0::/")
	f.Fuzz(func(t *testing.T, content string) {
		container, found := Parse(content)
		if found == (container == Container{}) {
			t.Errorf("%q: found is %v for %+v", content, found, container)
		}
		if container.ID != "" && (len(container.ID) != 64 || !strings.Contains(content, container.ID)) {
			t.Errorf("%q: ID %q", content, container.ID)
		}
	})
}
