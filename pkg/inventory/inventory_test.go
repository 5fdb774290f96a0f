// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var since = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func example() Inventory {
	return Inventory{GPUs: []GPU{
		{Index: 0, UUID: "GPU-a", Model: "h100-80gb-hbm3", MemoryMiB: 81559, NVLinkGroup: new(0), NUMANode: new(0), Health: Healthy},
		{
			Index: 1, UUID: "GPU-b", Model: "h100-80gb-hbm3", MemoryMiB: 81559, Health: Unhealthy,
			Fault: &Fault{
				Reason: "XID79", Since: since, NeedsReset: true, BootID: "6f0a",
				ResetCounters: map[string]float64{"energy": 5e9 + 0.125, "eccUncorrected": 1},
			},
		},
		{
			Index: 2, UUID: "GPU-c", Model: "h100-80gb-hbm3", MemoryMiB: 81559, MIG: true, Health: Unhealthy,
			Fault:      &Fault{Reason: "XID94", Since: since, RecoveryAction: "NodeReboot", NeedsReset: true, Repeated: "2 times in 24h", BootID: "6f0a"},
			PastFaults: []time.Time{since.Add(-time.Hour), since},
		},
	}}
}

// exampleText must not change: schedulers and agents of other versions rely on it.
const exampleText = `{"version":"v1","gpus":[` +
	`{"index":0,"uuid":"GPU-a","model":"h100-80gb-hbm3","memoryMiB":81559,"nvlinkGroup":0,"numaNode":0,"health":"Healthy"},` +
	`{"index":1,"uuid":"GPU-b","model":"h100-80gb-hbm3","memoryMiB":81559,"health":"Unhealthy",` +
	`"fault":{"reason":"XID79","since":"2026-11-21T12:00:00Z","needsReset":true,"bootID":"6f0a","resetCounters":{"eccUncorrected":1,"energy":5000000000.125}}},` +
	`{"index":2,"uuid":"GPU-c","model":"h100-80gb-hbm3","memoryMiB":81559,"mig":true,"health":"Unhealthy",` +
	`"fault":{"reason":"XID94","since":"2026-11-21T12:00:00Z","recoveryAction":"NodeReboot","needsReset":true,"repeated":"2 times in 24h","bootID":"6f0a"},` +
	`"pastFaults":["2026-11-21T11:00:00Z","2026-11-21T12:00:00Z"]}]}`

func TestInventoryIsWrittenAsPromised(t *testing.T) {
	t.Parallel()
	for range 2 {
		got, err := example().String()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(exampleText, got); diff != "" {
			t.Errorf("text (-want +got):\n%s", diff)
		}
	}
}

func TestInventorySurvivesTheRoundTrip(t *testing.T) {
	t.Parallel()
	want := example()
	want.Version = Version
	got, err := Parse(exampleText)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}

func TestParseIgnoresFieldsThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	got, err := Parse(`{"version":"v1","mig":true,"gpus":[{"uuid":"GPU-a","health":"Healthy","partitions":[1,2]}],"later":{}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := &Inventory{Version: Version, GPUs: []GPU{{UUID: "GPU-a", Health: Healthy}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const gpu = `{"uuid":"GPU-a","health":"Healthy"}`
	tests := map[string]struct{ text, want string }{
		"nothing":                      {"", "annotation falldio.com/gpu-inventory: is empty"},
		"text that is not JSON":        {"eight H100", "annotation falldio.com/gpu-inventory: invalid character 'e'"},
		"something after the JSON":     {`{"version":"v1"} {}`, "annotation falldio.com/gpu-inventory: invalid character '{' after top-level value"},
		"a list instead of an object":  {"[]", "annotation falldio.com/gpu-inventory: json: cannot unmarshal array"},
		"no version":                   {`{"gpus":[]}`, `annotation falldio.com/gpu-inventory: version is "", this program knows "v1"`},
		"null":                         {"null", `annotation falldio.com/gpu-inventory: version is "", this program knows "v1"`},
		"a version of the future":      {`{"version":"v2","gpus":[` + gpu + `]}`, `annotation falldio.com/gpu-inventory: version is "v2", this program knows "v1"`},
		"a GPU without a UUID":         {`{"version":"v1","gpus":[` + gpu + `,{"health":"Healthy"}]}`, "annotation falldio.com/gpu-inventory: gpus[1].uuid is missing"},
		"a GPU that is listed twice":   {`{"version":"v1","gpus":[` + gpu + `,` + gpu + `]}`, `gpus[1].uuid "GPU-a" is listed twice`},
		"a negative index":             {`{"version":"v1","gpus":[{"uuid":"GPU-a","index":-1,"health":"Healthy"}]}`, "gpus[0].index is -1, must not be negative"},
		"negative memory":              {`{"version":"v1","gpus":[{"uuid":"GPU-a","memoryMiB":-1,"health":"Healthy"}]}`, "gpus[0].memoryMiB is -1, must not be negative"},
		"no health":                    {`{"version":"v1","gpus":[{"uuid":"GPU-a"}]}`, `gpus[0].health is "", must be Healthy or Unhealthy`},
		"a health that does not exist": {`{"version":"v1","gpus":[{"uuid":"GPU-a","health":"healthy"}]}`, `gpus[0].health is "healthy", must be Healthy or Unhealthy`},
		"a time that is none":          {`{"version":"v1","gpus":[{"uuid":"GPU-a","health":"Unhealthy","fault":{"since":"today"}}]}`, `annotation falldio.com/gpu-inventory: parsing time`},
		"a slice without a UUID":       {`{"version":"v1","gpus":[{"uuid":"GPU-a","health":"Healthy","slices":[{"profile":"1g.10gb"}]}]}`, "gpus[0].slices[0].uuid is missing"},
		"a slice without a profile":    {`{"version":"v1","gpus":[{"uuid":"GPU-a","health":"Healthy","slices":[{"uuid":"MIG-a"}]}]}`, "gpus[0].slices[0].profile is missing"},
		"a slice that is listed twice": {`{"version":"v1","gpus":[{"uuid":"GPU-a","health":"Healthy","slices":[{"uuid":"MIG-a","profile":"1g.10gb"},{"uuid":"MIG-a","profile":"1g.10gb"}]}]}`, `gpus[0].slices[1].uuid "MIG-a" is listed twice`},
		"a slice of negative memory":   {`{"version":"v1","gpus":[{"uuid":"GPU-a","health":"Healthy","slices":[{"uuid":"MIG-a","profile":"1g.10gb","memoryMiB":-1}]}]}`, "gpus[0].slices[0].memoryMiB is -1, must not be negative"},
		"a negative counter":           {`{"version":"v1","gpus":[{"uuid":"GPU-a","health":"Unhealthy","fault":{"resetCounters":{"energy":-1}}}]}`, "gpus[0].fault.resetCounters[energy] is -1, must not be negative"},
		"memory that is not a number":  {`{"version":"v1","gpus":[{"uuid":"GPU-a","memoryMiB":"80Gi","health":"Healthy"}]}`, "cannot unmarshal string into Go struct field"},
		"more than any annotation has": {strings.Repeat(" ", MaxBytes+1), "annotation falldio.com/gpu-inventory: has 262145 bytes, at most 262144 are read"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
			if got != nil {
				t.Errorf("got %v beside the error", got)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(exampleText)
	f.Add(`{"version":"v1","gpus":null}`)
	f.Add(`{"version":"v1","gpus":[{"uuid":"GPU-a","health":"Unhealthy","fault":{"resetCounters":{}}}]}`)
	f.Add(`{"version":"v1","gpus":[{"uuid":"\ud800<","health":"Healthy","fault":{"since":"0001-01-01T00:00:00+23:59"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text)
		if err != nil {
			return
		}
		again, err := parsed.String()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if len(again) > MaxBytes {
			return // escaping makes it longer than the limit
		}
		reparsed, err := Parse(again)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
		if diff := cmp.Diff(parsed, reparsed); diff != "" {
			t.Errorf("%q became %q:\n%s", text, again, diff)
		}
		if third, err := reparsed.String(); err != nil || third != again {
			t.Errorf("%q is not stable: %q, %v", again, third, err)
		}
	})
}
