// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/pkg/gpumodel"
)

// The attributes of a device. In a CEL selector: device.attributes["gpu.falldio.com"].model.
const (
	UUID              resourceapi.QualifiedName = "uuid"
	Index             resourceapi.QualifiedName = "index"
	Model             resourceapi.QualifiedName = "model"
	ProductName       resourceapi.QualifiedName = "productName"
	NVLinkGroup       resourceapi.QualifiedName = "nvlinkGroup"
	NUMANode          resourceapi.QualifiedName = "numaNode"
	DriverVersion     resourceapi.QualifiedName = "driverVersion"
	CUDAVersion       resourceapi.QualifiedName = "cudaVersion"
	ComputeCapability resourceapi.QualifiedName = "computeCapability"
	// PCIeRoot is common to the drivers of all vendors, so that a GPU and a network card
	// under the same root can be asked for: deviceattribute.StandardDeviceAttributePCIeRoot.
	PCIeRoot resourceapi.QualifiedName = "resource.kubernetes.io/pcieRoot"
)

type attributeMap map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// attributes returns what selectors can ask for. What is unknown is left out.
func attributes(of *gpu.Device, driver gpu.Driver, options Options) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	model := options.Model
	if model == "" {
		model = gpumodel.Normalize(of.Product)
	}
	a := attributeMap{}
	a.addText(UUID, of.UUID)
	a.addNumber(Index, of.Index)
	a.addText(Model, model)
	a.addText(ProductName, of.Product)
	a.addNumber(NVLinkGroup, of.NVLinkGroup)
	a.addNumber(NUMANode, of.NUMANode)
	a.addVersion(DriverVersion, driver.Version)
	a.addVersion(CUDAVersion, driver.CUDA)
	a.addVersion(ComputeCapability, of.ComputeCapability)
	if options.PCIeRoot != nil {
		a.addText(PCIeRoot, options.PCIeRoot(&of.Info))
	}
	return a
}

func (a attributeMap) addText(name resourceapi.QualifiedName, text string) {
	if text == "" {
		return
	}
	text = strings.ToValidUTF8(text, "")
	if len(text) > resourceapi.DeviceAttributeMaxValueLength {
		text = strings.ToValidUTF8(text[:resourceapi.DeviceAttributeMaxValueLength], "")
	}
	a[name] = resourceapi.DeviceAttribute{StringValue: &text}
}

func (a attributeMap) addNumber(name resourceapi.QualifiedName, number int) {
	if number != gpu.Unknown {
		a[name] = resourceapi.DeviceAttribute{IntValue: new(int64(number))}
	}
}

// addVersion adds a version in the form of https://semver.org, which the API requires: three
// numbers without leading zeros. 570.124.06 becomes 570.124.6, and 12.8 becomes 12.8.0.
func (a attributeMap) addVersion(name resourceapi.QualifiedName, text string) {
	parsed, err := version.ParseGeneric(text)
	if err != nil {
		return
	}
	a[name] = resourceapi.DeviceAttribute{VersionValue: new(fmt.Sprintf("%d.%d.%d", parsed.Major(), parsed.Minor(), parsed.Patch()))}
}
