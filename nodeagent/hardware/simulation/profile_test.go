// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func mustParse(t *testing.T, yaml string) *Profile {
	t.Helper()
	profile, err := ParseProfile([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return profile
}

// open returns what a profile's Source finds.
func open(t *testing.T, profile *Profile) gpu.Inventory {
	t.Helper()
	inventory, err := New(profile, "n1", clocktesting.NewFakeClock(now)).Open()
	if err != nil {
		t.Fatal(err)
	}
	return inventory
}

func TestDefaultsAreThoseOfEightH100(t *testing.T) {
	t.Parallel()
	for name, profile := range map[string]*Profile{"Default": Default(), "an empty file": mustParse(t, "")} {
		inventory := open(t, profile)
		if diff := cmp.Diff(gpu.Driver{Version: "570.124.06", CUDA: "12.8"}, inventory.Driver); diff != "" {
			t.Errorf("%s: driver (-want +got):\n%s", name, diff)
		}
		if len(inventory.GPUs) != 8 {
			t.Fatalf("%s: %d GPUs", name, len(inventory.GPUs))
		}
		want := gpu.Info{
			Index: 7, UUID: UUID("n1", 7), Product: "NVIDIA H100 80GB HBM3", MemoryBytes: 81559 << 20,
			PCIBusID: "00000000:17:00.0", Minor: 7, NUMANode: 1, ComputeCapability: "9.0",
		}
		if diff := cmp.Diff(want, inventory.GPUs[7]); diff != "" {
			t.Errorf("%s: the last GPU (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff([]int{0, 0, 0, 0, 0, 0, 0, 0}, inventory.NVLinkGroups()); diff != "" {
			t.Errorf("%s: NVLink groups (-want +got):\n%s", name, diff)
		}
		if links := inventory.NVLinks[0][7]; links != 18 {
			t.Errorf("%s: %d links", name, links)
		}
	}
}

func TestProfilesDescribeTheMachine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		yaml   string
		numa   []int
		groups []int
		links  [][]int
	}{
		"no GPUs":                {"count: 0", nil, []int{}, nil},
		"one GPU has no peers":   {"count: 1", []int{0}, []int{-1}, nil},
		"bridged pairs":          {"{count: 4, nvlink: {groupSize: 2, links: 4}}", []int{0, 0, 1, 1}, []int{0, 0, 1, 1}, [][]int{{0, 4, 0, 0}, {4, 0, 0, 0}, {0, 0, 0, 4}, {0, 0, 4, 0}}},
		"no NVLink":              {"{count: 2, nvlink: {}}", []int{0, 1}, []int{-1, -1}, nil},
		"a group of one":         {"{count: 2, nvlink: {groupSize: 1}}", []int{0, 1}, []int{-1, -1}, nil},
		"a matrix":               {"{count: 3, numaNodes: 1, nvlink: {matrix: [[0, 0, 2], [0, 0, 0], [2, 0, 0]]}}", []int{0, 0, 0}, []int{0, -1, 0}, [][]int{{0, 0, 2}, {0, 0, 0}, {2, 0, 0}}},
		"a matrix without links": {"{count: 2, nvlink: {matrix: [[0, 0], [0, 0]]}}", []int{0, 1}, []int{-1, -1}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inventory := open(t, mustParse(t, test.yaml))
			var numa []int
			for i := range inventory.GPUs {
				numa = append(numa, inventory.GPUs[i].NUMANode)
			}
			if diff := cmp.Diff(test.numa, numa); diff != "" {
				t.Errorf("NUMA nodes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.groups, inventory.NVLinkGroups()); diff != "" {
				t.Errorf("NVLink groups (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.links, inventory.NVLinks); diff != "" {
				t.Errorf("links (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseProfileRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ yaml, want string }{
		"text that is no YAML":             {"{", "error converting YAML to JSON"},
		"a list":                           {"[]", "cannot unmarshal array"},
		"an unknown field":                 {"gpus: 4", `unknown field "gpus"`},
		"a field that is listed twice":     {"count: 1\ncount: 2", `"count" already set in map`},
		"an unknown field of the load":     {"load: {speed: 1}", `unknown field "speed"`},
		"a negative count":                 {"count: -1", "count: Invalid value: -1: must be between 0 and 128"},
		"more GPUs than any machine has":   {"count: 129", "count: Invalid value: 129: must be between 0 and 128"},
		"half a GPU":                       {"count: 0.5", "cannot unmarshal number"},
		"no memory":                        {"memory: 0", `memory: Invalid value: "0": must be greater than 0`},
		"negative memory":                  {"memory: -1Gi", `memory: Invalid value: "-1Gi": must be greater than 0`},
		"memory that is no quantity":       {"memory: much", "quantities must match"},
		"a negative power limit":           {"powerLimitWatts: -1", "powerLimitWatts: Invalid value: -1: must be greater than 0"},
		"a negative number of NUMA nodes":  {"numaNodes: -1", "numaNodes: Invalid value: -1: must be between 1 and 128"},
		"NUMA nodes without end":           {"numaNodes: 4611686018427387904", "numaNodes: Invalid value: 4611686018427387904: must be between 1 and 128"},
		"a negative group":                 {"nvlink: {groupSize: -1}", "nvlink.groupSize: Invalid value: -1: must not be negative"},
		"negative links":                   {"nvlink: {groupSize: 2, links: -1}", "nvlink.links: Invalid value: -1: must not be negative"},
		"a group beside a matrix":          {"{count: 1, nvlink: {groupSize: 1, matrix: [[0]]}}", "nvlink.groupSize: Invalid value: 1: must not be set together with a matrix"},
		"links beside a matrix":            {"{count: 1, nvlink: {links: 4, matrix: [[0]]}}", "nvlink.links: Invalid value: 4: must not be set together with a matrix"},
		"a matrix of the wrong size":       {"{count: 2, nvlink: {matrix: [[0]]}}", "nvlink.matrix: Invalid value: 1: must have as many rows as there are GPUs, 2"},
		"a matrix with a short row":        {"{count: 2, nvlink: {matrix: [[0, 1], [1]]}}", "nvlink.matrix[1]: Invalid value: 1: must have as many numbers as there are GPUs, 2"},
		"a matrix that is not symmetric":   {"{count: 2, nvlink: {matrix: [[0, 1], [2, 0]]}}", "nvlink.matrix[0][1]: Invalid value: 1: the matrix must be symmetric"},
		"a GPU that is linked with itself": {"{count: 1, nvlink: {matrix: [[1]]}}", "nvlink.matrix[0][0]: Invalid value: 1: the matrix must be symmetric"},
		"negative links in a matrix":       {"{count: 2, nvlink: {matrix: [[0, -1], [-1, 0]]}}", "nvlink.matrix[0][1]: Invalid value: -1: the matrix must be symmetric"},
		"a wave that takes no time":        {"load: {period: 0s}", `load.period: Invalid value: "0s": must be greater than 0`},
		"a wave that takes less":           {"load: {period: -1m}", `load.period: Invalid value: "-1m0s": must be greater than 0`},
		"a period that is no duration":     {"load: {period: often}", "invalid duration"},
		"more than all of the time":        {"load: {utilization: {low: 0, high: 1.1}}", `load.utilization: Invalid value: "0 to 1.1": must be a low and a high share`},
		"less than nothing":                {"load: {memory: {low: -0.1, high: 1}}", `load.memory: Invalid value: "-0.1 to 1": must be a low and a high share`},
		"a low that is higher":             {"load: {memory: {low: 0.6, high: 0.5}}", `load.memory: Invalid value: "0.6 to 0.5": must be a low and a high share`},
		"a share that is no number":        {"load: {memory: {low: .nan, high: 1}}", "NaN"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := ParseProfile([]byte(test.yaml)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestLoadProfileNamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "profile.yaml")
	if _, err := LoadProfile(path); err == nil || !strings.Contains(err.Error(), "reading the simulation's profile: open "+path) {
		t.Errorf("without the file: %v", err)
	}
	write(t, path, "count: 200")
	if _, err := LoadProfile(path); err == nil || !strings.Contains(err.Error(), path+": count: Invalid value: 200") {
		t.Errorf("a file with a mistake: %v", err)
	}
	write(t, path, "{product: NVIDIA A10, count: 2}")
	profile, err := LoadProfile(path)
	if err != nil {
		t.Fatal(err)
	}
	if profile.Product != "NVIDIA A10" || *profile.Count != 2 || profile.NVLink.GroupSize != 2 {
		t.Errorf("got %+v", profile)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUUIDsNeverChange(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		node  string
		index int
		want  string
	}{
		{"n1", 0, "GPU-dcd84816-b3f5-5233-94b1-3a5674e7b4ff"},
		{"n1", 1, "GPU-eed858ea-256e-5bef-9deb-8ab77568a0bc"},
		{"n2", 0, "GPU-3cb89cdb-e7a2-5a84-9556-afa84bec55c4"},
	} {
		if got := UUID(test.node, test.index); got != test.want {
			t.Errorf("GPU %d of %s is %s, want %s", test.index, test.node, got, test.want)
		}
	}
}

func FuzzParseProfile(f *testing.F) {
	for _, yaml := range []string{
		"", "count: 0", "{count: 128, numaNodes: 3, nvlink: {groupSize: 5}}", "{count: 2, nvlink: {matrix: [[0, 1], [1, 0]]}}",
		"{memory: 1, powerLimitWatts: 1, load: {seed: 7, period: 1ns, utilization: {low: 0, high: 1}, memory: {low: 1, high: 1}}}",
		"{memory: 9E, numaNodes: 9223372036854775807, load: {period: 2562047h}}",
	} {
		f.Add([]byte(yaml), int64(1))
	}
	f.Fuzz(func(t *testing.T, yaml []byte, seconds int64) {
		profile, err := ParseProfile(yaml)
		if err != nil {
			return
		}
		const century = 100 * 365 * 24 * 60 * 60
		checkSource(t, profile, time.Duration(uint64(seconds)%century)*time.Second)
	})
}

// checkSource opens and reads the GPUs of a profile after some time and checks
// that what they say goes together.
func checkSource(t *testing.T, profile *Profile, later time.Duration) {
	t.Helper()
	clock := clocktesting.NewFakeClock(now)
	source := New(profile, "n1", clock)
	inventory, err := source.Open()
	if err != nil {
		t.Fatal(err)
	}
	clock.Step(later)
	checkInventory(t, profile, &inventory)
	for i := range inventory.GPUs {
		sample, err := source.Read(inventory.GPUs[i].UUID)
		if err != nil {
			t.Fatal(err)
		}
		checkValues(t, profile, &inventory.GPUs[i], sample.Values)
	}
}

func checkInventory(t *testing.T, profile *Profile, inventory *gpu.Inventory) {
	t.Helper()
	if len(inventory.GPUs) != *profile.Count {
		t.Fatalf("%d GPUs, want %d", len(inventory.GPUs), *profile.Count)
	}
	uuids := map[string]bool{}
	buses := map[string]bool{}
	for i := range inventory.GPUs {
		info := &inventory.GPUs[i]
		uuids[info.UUID], buses[info.PCIBusID] = true, true
		if info.Index != i || info.MemoryBytes == 0 || info.NUMANode < 0 || info.NUMANode >= profile.NUMANodes || len(info.PCIBusID) != len("00000000:1B:00.0") {
			t.Errorf("GPU %d is %+v", i, info)
		}
	}
	if len(uuids) != len(inventory.GPUs) || len(buses) != len(inventory.GPUs) {
		t.Errorf("%d UUIDs and %d buses of %d GPUs", len(uuids), len(buses), len(inventory.GPUs))
	}
	checkLinks(t, inventory)
}

func checkLinks(t *testing.T, inventory *gpu.Inventory) {
	t.Helper()
	for i, row := range inventory.NVLinks {
		if len(row) != len(inventory.GPUs) || row[i] != 0 {
			t.Errorf("row %d of the links is %v", i, row)
		}
		for j, links := range row {
			if links < 0 || links != inventory.NVLinks[j][i] {
				t.Errorf("GPUs %d and %d have %d links", i, j, links)
			}
		}
	}
}

func checkValues(t *testing.T, profile *Profile, info *gpu.Info, values gpu.Values) {
	t.Helper()
	for quantity, value := range values {
		if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
			t.Errorf("quantity %d of GPU %d is %v", quantity, info.Index, value)
		}
	}
	within := func(quantity gpu.Quantity, low, high float64) {
		t.Helper()
		const tolerance = 1e-9
		if value := values[quantity]; value < low-tolerance*(1+math.Abs(low)) || value > high+tolerance*(1+math.Abs(high)) {
			t.Errorf("quantity %d of GPU %d is %v, want %v to %v", quantity, info.Index, value, low, high)
		}
	}
	memory, limit := float64(info.MemoryBytes), float64(profile.PowerLimitWatts)
	within(gpu.Utilization, profile.Load.Utilization.Low, profile.Load.Utilization.High)
	within(gpu.MemoryUtilization, 0, 1)
	within(gpu.Power, limit/10, limit)
	within(gpu.PowerLimit, limit, limit)
	within(gpu.Temperature, 30, 75)
	within(gpu.SMClock, 0.345e9, 1.98e9)
	within(gpu.Processes, 0, 1)
	usable := memory - values[gpu.MemoryReserved]
	within(gpu.MemoryUsed, usable*profile.Load.Memory.Low-1, usable*profile.Load.Memory.High)
	if sum := values[gpu.MemoryUsed] + values[gpu.MemoryFree] + values[gpu.MemoryReserved]; math.Abs(sum-memory) > memory*1e-12 {
		t.Errorf("the parts of the memory are %v, all of it is %v", sum, memory)
	}
}
