// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package answers reads what the device plugins of a node have answered for each container.
//
// The kubelet calls a plugin once for a container, and repeats the answer whenever the
// container starts again, also after it was restarted itself. So what a container has been
// given depends on an earlier moment, and perhaps on an earlier run of the agent. The kubelet's
// API does not tell, but the kubelet keeps the answers in a file beside the plugins' sockets:
// https://github.com/kubernetes/kubernetes/blob/v1.37.1/pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go
//
// A new kubelet reads the file of an old one, so the format is stable; but it is the kubelet's
// own, and whoever else reads it must do without an answer that is missing.
package answers

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// file is the kubelet's file, in its directory for device plugins. The kubelet replaces it as
// a whole.
const file = "kubelet_internal_checkpoint"

// Key identifies an answer.
type Key struct {
	Pod                 types.UID
	Container, Resource string
}

// Answer is what a device plugin has answered for a container.
type Answer struct {
	// DeviceIDs are the devices that the answer is about, sorted.
	DeviceIDs []string
	Response  *pluginapi.ContainerAllocateResponse
}

// checkpoint is the part of the file that matters.
type checkpoint struct {
	Data struct{ PodDeviceEntries []entry }
}

type entry struct {
	PodUID                      types.UID
	ContainerName, ResourceName string
	// DeviceIDs are by NUMA node.
	DeviceIDs map[int64][]string
	// AllocResp is a ContainerAllocateResponse.
	AllocResp []byte
}

// Read reads the answers about a resource from the kubelet's directory for device plugins. Those
// of Pods that have ended may still be among them.
func Read(directory, resource string) (map[Key]Answer, error) {
	data, err := os.ReadFile(filepath.Join(directory, file)) //nolint:gosec // the administrator chose the directory
	if err != nil {
		return nil, fmt.Errorf("reading what device plugins have answered: %w", err)
	}
	answers, err := parse(data, resource)
	if err != nil {
		return nil, fmt.Errorf("reading what device plugins have answered: %s: %w", file, err)
	}
	return answers, nil
}

func parse(data []byte, resource string) (map[Key]Answer, error) {
	var from checkpoint
	if err := json.Unmarshal(data, &from); err != nil {
		return nil, err
	}
	answers := map[Key]Answer{}
	for i := range from.Data.PodDeviceEntries {
		e := &from.Data.PodDeviceEntries[i]
		if e.ResourceName != resource {
			continue
		}
		response := &pluginapi.ContainerAllocateResponse{}
		if err := proto.Unmarshal(e.AllocResp, response); err != nil {
			return nil, fmt.Errorf("container %s of Pod %s: %w", e.ContainerName, e.PodUID, err)
		}
		answers[Key{e.PodUID, e.ContainerName, e.ResourceName}] = Answer{DeviceIDs: e.devices(), Response: response}
	}
	return answers, nil
}

// devices returns the devices, sorted. One that belongs to several NUMA nodes is listed for
// each.
func (e *entry) devices() []string {
	ids := slices.Concat(slices.Collect(maps.Values(e.DeviceIDs))...)
	slices.Sort(ids)
	return slices.Compact(ids)
}
