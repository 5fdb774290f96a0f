// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// Nodes looks up which device nodes CDI devices bring into a container, whoever has described
// them.
type Nodes struct{ dirs []string }

// NewNodes returns Nodes for the specifications in these directories; later ones take
// precedence.
func NewNodes(dirs ...string) *Nodes { return &Nodes{dirs: dirs} }

// devices returns the devices of all specifications that can be read, by their names. As for a
// container runtime, those that are described twice in a directory are none.
func (n *Nodes) devices() map[string]*cdi.Device {
	all := map[string]*cdi.Device{}
	for priority, dir := range n.dirs {
		here := map[string]*cdi.Device{}
		var twice []string
		entries, _ := os.ReadDir(dir) // a directory that is missing has none
		for _, entry := range entries {
			spec, err := readSpec(filepath.Join(dir, entry.Name()), priority)
			if err != nil {
				continue // it concerns other devices; those that are described are found
			}
			for i := range spec.Devices {
				device := spec.GetDevice(spec.Devices[i].Name)
				name := device.GetQualifiedName()
				if here[name] != nil {
					twice = append(twice, name)
				}
				here[name] = device
			}
		}
		maps.Copy(all, here)
		for _, name := range twice {
			delete(all, name)
		}
	}
	return all
}

// readSpec reads a specification. It is somebody else's, and the library panics at some of them: at a
// vendor or a class of one letter, for one (in version 1.1.0). That must neither end the process nor
// hide what others have described.
func readSpec(path string, priority int) (spec *cdi.Spec, err error) {
	if extension := filepath.Ext(path); extension != ".json" && extension != ".yaml" {
		return nil, fmt.Errorf("%s is no CDI specification", path)
	}
	defer func() {
		if problem := recover(); problem != nil {
			spec, err = nil, fmt.Errorf("reading the CDI specification %s: %v", path, problem)
		}
	}()
	return cdi.ReadSpec(path, priority)
}

// The paths of the device nodes of one of NVIDIA's GPUs, and of a capability, before their
// minor numbers.
const (
	nvidiaNode     = "/dev/nvidia"
	capabilityNode = "/dev/nvidia-caps/nvidia-cap"
)

// DeviceNodes are the device nodes of NVIDIA's that a container gets, by their minor numbers.
type DeviceNodes struct {
	// GPUs are those of GPUs.
	GPUs []int
	// Capabilities are those that grant access to parts of GPUs in MIG mode.
	Capabilities []int
}

// Of returns the device nodes that a container gets with CDI devices. Devices that are not
// described, or not correctly, bring none.
func (n *Nodes) Of(names []string) DeviceNodes {
	var found DeviceNodes
	devices := n.devices()
	for _, name := range names {
		device := devices[name]
		if device == nil {
			continue
		}
		for _, node := range device.ContainerEdits.DeviceNodes {
			if minor, ok := minorOf(node.Path, nvidiaNode); ok {
				found.GPUs = append(found.GPUs, minor)
			}
			if minor, ok := minorOf(node.Path, capabilityNode); ok {
				found.Capabilities = append(found.Capabilities, minor)
			}
		}
	}
	return found
}

// minorOf returns the number at the end of a path, after what precedes it.
func minorOf(path, before string) (minor int, ok bool) {
	number, found := strings.CutPrefix(path, before)
	if !found {
		return 0, false
	}
	const bits = 20 // of a minor number in Linux
	value, err := strconv.ParseUint(number, 10, bits)
	return int(value), err == nil
}
