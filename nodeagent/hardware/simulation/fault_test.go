// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParseFaults(t *testing.T) {
	t.Parallel()
	got, err := ParseFaults([]byte(`
- {gpu: 0, fault: XID, xid: 79}
- {node: n2, gpu: 3, fault: Slow, delay: 200ms}
- {fault: Lost}
- {gpu: 1, fault: ECC}
- {gpu: 1, fault: RecoveryAction, action: NodeReboot}
- {gpu: 2, fault: MIG, slices: [3g.40gb, 1g.10gb]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Fault{
		{GPU: new(0), Fault: XID, XID: 79},
		{Node: "n2", GPU: new(3), Fault: Slow, Delay: metav1.Duration{Duration: 200 * time.Millisecond}},
		{Fault: Lost},
		{GPU: new(1), Fault: ECC},
		{GPU: new(1), Fault: RecoveryAction, Action: "NodeReboot"},
		{GPU: new(2), Fault: MIG, Slices: []string{"3g.40gb", "1g.10gb"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestParseFaultsRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ yaml, want string }{
		"an object instead of a list":   {"{fault: Lost}", "cannot unmarshal object"},
		"an unknown field":              {"[{fault: Lost, since: today}]", `unknown field "since"`},
		"no kind":                       {"[{gpu: 0}]", `fault 1: fault: "" is not one of XID, ECC, Lost, Hung, Slow, Removed, RecoveryAction, RowRemapPending, RowRemapFailure, FabricNotReady, MIG, Recovered`},
		"an unknown kind":               {"[{fault: Lost}, {fault: lost}]", `fault 2: fault: "lost" is not one of XID, ECC, Lost, Hung, Slow, Removed, RecoveryAction, RowRemapPending, RowRemapFailure, FabricNotReady, MIG, Recovered`},
		"a negative GPU":                {"[{gpu: -1, fault: Lost}]", "fault 1: gpu: there is no GPU -1"},
		"a GPU that no machine has":     {"[{gpu: 128, fault: Lost}]", "fault 1: gpu: there is no GPU 128"},
		"an XID without its number":     {"[{fault: XID}]", "fault 1: xid: the fault XID needs the number of the error"},
		"an XID that is no number":      {"[{fault: XID, xid: -1}]", "cannot unmarshal number -1"},
		"a slow GPU without a delay":    {"[{fault: Slow}]", "fault 1: delay: the fault Slow needs a delay such as 200ms"},
		"a slow GPU that is quicker":    {"[{fault: Slow, delay: -1s}]", "fault 1: delay: the fault Slow needs a delay such as 200ms"},
		"a delay that is no duration":   {"[{fault: Slow, delay: long}]", "invalid duration"},
		"an action that there is not":   {"[{fault: RecoveryAction, action: Pray}]", `fault 1: action: "Pray" is none; the fault RecoveryAction needs one such as NodeReboot`},
		"no action":                     {"[{fault: RecoveryAction}]", `fault 1: action: "" is none`},
		"a fault that is there by half": {"[{fault: Lo", "error converting YAML"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := ParseFaults([]byte(test.yaml)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

func FuzzParseFaults(f *testing.F) {
	for _, yaml := range []string{"[{fault: Lost}]", "[{gpu: 1, fault: XID, xid: 79}, {fault: Slow, delay: 1ns}, {fault: Recovered}]", "[null]", ""} {
		f.Add([]byte(yaml))
	}
	f.Fuzz(func(t *testing.T, yaml []byte) {
		faults, err := ParseFaults(yaml)
		if err != nil {
			return
		}
		profile := Default()
		profile.Count = new(2)
		source := New(profile, "n1", newClock())
		for _, fault := range faults {
			if err := source.Inject(fault); err != nil && (fault.GPU == nil || *fault.GPU < 2) && !strings.Contains(err.Error(), "events are waiting already") {
				t.Errorf("%q: %v", yaml, err)
			}
		}
		if err := source.Inject(Fault{Fault: Recovered}); err != nil {
			t.Fatal(err)
		}
		inventory, err := source.Open()
		if err != nil || len(inventory.GPUs) != 2 {
			t.Fatalf("after all have recovered: %v, %v", inventory, err)
		}
		for i := range inventory.GPUs {
			if _, err := source.Read(inventory.GPUs[i].UUID); err != nil {
				t.Errorf("after all have recovered: %v", err)
			}
		}
	})
}
