// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"io/fs"
	"maps"
	"os"
	"testing"
	"testing/fstest"
)

// pciDevice is a device as Linux describes it. A device without a driver has none.
func pciDevice(address, vendor, class, driver string) fstest.MapFS {
	folder := "bus/pci/devices/" + address + "/"
	files := fstest.MapFS{
		folder + "vendor":          {Data: []byte(vendor + "\n")},
		folder + "class":           {Data: []byte(class + "\n")},
		folder + "driver_override": {Data: []byte("(null)\n")},
	}
	if driver != "" {
		files[folder+"driver"] = link("../../../../bus/pci/drivers/" + driver)
	}
	return files
}

func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
}

func h100(address, driver string) fstest.MapFS {
	return pciDevice(address, "0x10de", "0x030200", driver)
}

// with adds files to a device or replaces them.
func with(device fstest.MapFS, name string, file *fstest.MapFile) fstest.MapFS {
	device[name] = file
	return device
}

func TestGPUsOnTheBus(t *testing.T) {
	tests := map[string]struct {
		device fstest.MapFS
		want   int
	}{
		"a 3D controller":                         {h100("0000:10:00.0", "nvidia"), 1},
		"a VGA controller":                        {pciDevice("0000:10:00.0", "0x10de", "0x030000", "nvidia"), 1},
		"one that the driver has failed to start": {h100("0000:10:00.0", ""), 1},
		"one without the attribute for reserving": {with(h100("0000:10:00.0", ""), "bus/pci/devices/0000:10:00.0/driver_override", &fstest.MapFile{}), 1},
		"one passed through to a virtual machine": {h100("0000:10:00.0", "vfio-pci"), 0},
		"one reserved for that": {
			with(h100("0000:10:00.0", ""), "bus/pci/devices/0000:10:00.0/driver_override", &fstest.MapFile{Data: []byte("vfio-pci\n")}), 0,
		},
		"one of the free driver": {h100("0000:10:00.0", "nouveau"), 0},
		"a virtual function":     {with(h100("0000:10:00.4", ""), "bus/pci/devices/0000:10:00.4/physfn", link("../0000:10:00.0")), 0},
		"an NVSwitch":            {pciDevice("0000:10:00.0", "0x10de", "0x068000", "nvidia-nvswitch"), 0},
		"a GPU's sound":          {pciDevice("0000:10:00.1", "0x10de", "0x040300", "snd_hda_intel"), 0},
		"another vendor's GPU":   {pciDevice("0000:10:00.0", "0x1002", "0x030000", "amdgpu"), 0},
		"one without a driver":   {pciDevice("0000:10:00.0", "0x1002", "0x030000", ""), 0},
		"nothing":                {fstest.MapFS{}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := gpusOnBus(test.device); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
			both := h100("0000:20:00.0", "nvidia")
			maps.Copy(both, test.device)
			if got := gpusOnBus(both); got != test.want+1 {
				t.Errorf("beside another one: got %d, want %d", got, test.want+1)
			}
		})
	}
}

func TestOnBusIsUnknownUnlessAllGPUsAreVisible(t *testing.T) {
	sys := h100("0000:10:00.0", "nvidia")
	maps.Copy(sys, h100("0000:11:00.0", ""))
	for allVisible, want := range map[bool]int{true: 2, false: 0} {
		source := newH100s(t, 1).sourceWith(t, Options{SysFS: sys, AllVisible: allVisible})
		if inventory := mustOpen(t, source); inventory.OnBus != want || len(inventory.GPUs) != 1 {
			t.Errorf("%d of %d GPUs were found, want 1 of %d", len(inventory.GPUs), inventory.OnBus, want)
		}
	}
}

// The tests are run on machines with and without GPUs; this reads the links of a real /sys.
func TestTheRealBusCanBeRead(t *testing.T) {
	t.Logf("there are %d GPUs on the bus", gpusOnBus(os.DirFS("/sys")))
}
