// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzArguments reads any YAML as the arguments of each plugin. What is accepted is within its
// bounds, and is accepted again, as the same, when it is written with all of its defaults.
func FuzzArguments(f *testing.F) {
	const version = "apiVersion: gpuscheduler.falldio.com/v1\n"
	f.Add([]byte(version + "kind: GPUGangArgs\ntopologyLevels: [{name: leaf, nodeLabel: a/b}]\nnodePools: [a]\ngpuResources: [falldio.com/gpu]\nqueuePolicy: fairshare\npreferenceTolerance: 0.5\njournal: {directory: /var/journal}\n"))
	f.Add([]byte(version + "kind: GPUGangArgs\nreservations: 64\njournal: {directory: /a, port: 0, maxMegabytes: 1}\n"))
	f.Add([]byte(version + "kind: GPUGangArgs\npreferenceTolerance: .nan\n"))
	f.Add([]byte(version + "kind: GPUDevicesArgs\nplacement: Scored\n"))
	f.Add([]byte(version + "kind: GPUClaimsArgs\nfilterTimeoutSeconds: 9223372036854775807\n"))
	f.Add([]byte("a: &a [1]\nb: [*a, *a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(text), func() {
			reread(t, DecodeGang, text, checkGang)
			reread(t, DecodeDevices, text, func(*testing.T, *DevicesArgs) {})
			reread(t, DecodeClaims, text, checkClaims)
		})
	})
}

// reread decodes arguments, checks them, writes them and decodes them again.
func reread[T any](t *testing.T, decode func(runtime.Object) (*T, error), text []byte, check func(*testing.T, *T)) {
	t.Helper()
	args, err := decode(&runtime.Unknown{Raw: text})
	if err != nil {
		if args != nil {
			t.Errorf("%+v beside the error %v", args, err)
		}
		return
	}
	check(t, args)
	written, err := json.Marshal(args)
	if err != nil {
		t.Fatalf("%q can't be written: %v", text, err)
	}
	again, err := decode(&runtime.Unknown{Raw: written})
	if err != nil {
		t.Fatalf("%q became %q: %v", text, written, err)
	}
	if diff := cmp.Diff(args, again); diff != "" {
		t.Errorf("%q became %q (-first +second):\n%s", text, written, diff)
	}
}

func checkGang(t *testing.T, args *GangArgs) {
	t.Helper()
	for name, seconds := range map[string]int{
		"permitTimeoutSeconds": args.PermitTimeoutSeconds, "claimSeconds": args.ClaimSeconds, "historyPeriodSeconds": args.HistoryPeriodSeconds,
		"queueMaxOvertakeSeconds": args.QueueMaxOvertakeSeconds, "partialGangTimeoutSeconds": args.PartialGangTimeoutSeconds,
	} {
		if Seconds(seconds) < 0 {
			t.Errorf("%s is %v", name, Seconds(seconds))
		}
	}
	if !(args.PreferenceTolerance >= 0) {
		t.Errorf("the tolerance is %v", args.PreferenceTolerance)
	}
	if levels := args.Levels(); len(levels) != len(args.TopologyLevels) {
		t.Errorf("%d of %d levels", len(levels), len(args.TopologyLevels))
	}
}

func checkClaims(t *testing.T, args *ClaimsArgs) {
	t.Helper()
	if Seconds(args.FilterTimeoutSeconds) < 0 || Seconds(args.BindingTimeoutSeconds) < 0 {
		t.Errorf("the timeouts are %v and %v", Seconds(args.FilterTimeoutSeconds), Seconds(args.BindingTimeoutSeconds))
	}
}
