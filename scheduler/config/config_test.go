// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const (
	gangHeader    = "apiVersion: gpuscheduler.falldio.com/v1\nkind: GPUGangArgs\n"
	devicesHeader = "apiVersion: gpuscheduler.falldio.com/v1\nkind: GPUDevicesArgs\n"
)

func raw(text string) runtime.Object { return &runtime.Unknown{Raw: []byte(text)} }

func TestWithoutArgumentsTheDefaultsCount(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]runtime.Object{"no arguments": nil, "arguments without fields": raw(gangHeader)} {
		args, err := DecodeGang(object)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := DefaultGangArgs()
		want.TypeMeta = args.TypeMeta
		if diff := cmp.Diff(want, args); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	devices, err := DecodeDevices(nil)
	if err != nil || devices.Placement != Packing {
		t.Errorf("placement %q, error %v, want %s", devices.Placement, err, Packing)
	}
}

func TestTheDefaultsAreValid(t *testing.T) {
	t.Parallel()
	if err := DefaultGangArgs().validate().ToAggregate(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(snapshot.DefaultLevels(), DefaultGangArgs().Levels()); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
}

func TestFieldsReplaceTheirDefaults(t *testing.T) {
	t.Parallel()
	args, err := DecodeGang(raw(gangHeader + "topologyLevels: [{name: row, nodeLabel: example.com/row}]\nnodePools: [blue]\nmaxRefusals: 0\nstarvationSeconds: 0\nexplainPeriodSeconds: 0\nhistoryPeriodSeconds: 0\nreportUnschedulableMembers: true\npreferenceTolerance: 0.05\ngpuResources: [falldio.com/gpu]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultGangArgs()
	want.TypeMeta, want.NodePools = args.TypeMeta, []string{"blue"}
	want.TopologyLevels = []TopologyLevel{{Name: "row", NodeLabel: "example.com/row"}}
	want.MaxRefusals, want.StarvationSeconds, want.ExplainPeriodSeconds, want.HistoryPeriodSeconds = 0, 0, 0, 0
	want.ReportUnschedulableMembers = true
	want.PreferenceTolerance = 0.05
	want.GPUResources = []corev1.ResourceName{"falldio.com/gpu"}
	if diff := cmp.Diff(want, args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	recorded, err := DecodeGang(raw(gangHeader + "journal: {directory: /var/lib/journal}"))
	if err != nil || recorded.Journal.MaxMegabytes != 256 || *recorded.Journal.Port != 10261 {
		t.Errorf("the journal is %+v, error %v", recorded.Journal, err)
	}
	unserved, err := DecodeGang(raw(gangHeader + "journal: {directory: /var/lib/journal, port: 0, maxMegabytes: 64}"))
	if err != nil || unserved.Journal.MaxMegabytes != 64 || *unserved.Journal.Port != 0 {
		t.Errorf("the journal is %+v, error %v", unserved.Journal, err)
	}
	none, err := DecodeGang(raw(gangHeader + "topologyLevels: []"))
	if err != nil || len(none.Levels()) != 0 {
		t.Errorf("an empty list of levels gives %v, error %v", none.Levels(), err)
	}
	scored, err := DecodeDevices(raw(devicesHeader + "placement: Scored"))
	if err != nil || scored.Placement != Scored {
		t.Errorf("placement %q, error %v", scored.Placement, err)
	}
}

// The message must be enough to find the error in the configuration.
func TestArgumentsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ yaml, want string }{
		"another kind":                 {devicesHeader, `must have apiVersion: gpuscheduler.falldio.com/v1 and kind: GPUGangArgs, have apiVersion: "gpuscheduler.falldio.com/v1" and kind: "GPUDevicesArgs"`},
		"another version":              {"apiVersion: gpuscheduler.falldio.com/v9\nkind: GPUGangArgs", `have apiVersion: "gpuscheduler.falldio.com/v9"`},
		"no version":                   {"maxRefusals: 1", `have apiVersion: ""`},
		"no YAML":                      {"}{", "arguments of plugin GPUGang"},
		"a field that is misspelt":     {gangHeader + "maxRefusal: 1", `unknown field "maxRefusal"`},
		"a field in another case":      {gangHeader + "MaxRefusals: 1", `unknown field "MaxRefusals"`},
		"a field that is listed twice": {gangHeader + "maxRefusals: 1\nmaxRefusals: 2", `key "maxRefusals" already set`},
		"a text for a number":          {gangHeader + "maxRefusals: many", "maxRefusals"},
		"no time at the barrier":       {gangHeader + "permitTimeoutSeconds: 0", "permitTimeoutSeconds: Invalid value: 0: must be from 1 to 900"},
		"more time than there may be":  {gangHeader + "permitTimeoutSeconds: 901", "permitTimeoutSeconds: Invalid value: 901"},
		"less than no refusals":        {gangHeader + "maxRefusals: -1", "maxRefusals: Invalid value: -1"},
		"no time for a partial gang":   {gangHeader + "partialGangTimeoutSeconds: 0", "partialGangTimeoutSeconds: Invalid value: 0"},
		"negative patience":            {gangHeader + "starvationSeconds: -1", "starvationSeconds: Invalid value: -1"},
		"no time for a claim":          {gangHeader + "claimSeconds: 0", "claimSeconds: Invalid value: 0"},
		"a negative period":            {gangHeader + "explainPeriodSeconds: -1", "explainPeriodSeconds: Invalid value: -1"},
		"a negative pause":             {gangHeader + "historyPeriodSeconds: -1", "historyPeriodSeconds: Invalid value: -1"},
		"a negative tolerance":         {gangHeader + "preferenceTolerance: -0.5", "preferenceTolerance: Invalid value: -0.5: must be from 0 to 1000"},
		"GPUs under an unknown name":   {gangHeader + "gpuResources: [falldio.com/gpu, amd.com/gpu]", `gpuResources[1]: Unsupported value: "amd.com/gpu": supported values: "falldio.com/gpu", "nvidia.com/gpu"`},
		"GPUs under one name twice":    {gangHeader + "gpuResources: [falldio.com/gpu, falldio.com/gpu]", `gpuResources[1]: Duplicate value: "falldio.com/gpu"`},
		"GPUs without our name":        {gangHeader + "gpuResources: [nvidia.com/gpu]", "must contain falldio.com/gpu"},
		"GPUs under no name":           {gangHeader + "gpuResources: []", "must contain falldio.com/gpu"},
		"a pool without a name":        {gangHeader + "nodePools: [a, '']", "nodePools[1]: Required value"},
		"a pool that can't be":         {gangHeader + "nodePools: [a b]", `nodePools[0]: Invalid value: "a b"`},
		"a level twice":                {gangHeader + "topologyLevels: [{name: a, nodeLabel: x}, {name: a, nodeLabel: yy}]", `topologyLevels[1].name: Duplicate value: "a"`},
		"a label twice":                {gangHeader + "topologyLevels: [{name: a, nodeLabel: x}, {name: b, nodeLabel: x}]", `topologyLevels[1].nodeLabel: Duplicate value: "x"`},
		"a level without a name":       {gangHeader + "topologyLevels: [{nodeLabel: x}]", "topologyLevels[0].name: Invalid value"},
		"a level without a label":      {gangHeader + "topologyLevels: [{name: a}]", "topologyLevels[0].nodeLabel: Invalid value"},
		"a journal nowhere":            {gangHeader + "journal: {}", "journal.directory: Required value: where the journal is written"},
		"a journal somewhere here":     {gangHeader + "journal: {directory: journal}", `journal.directory: Invalid value: "journal": must be an absolute path`},
		"a journal without room":       {gangHeader + "journal: {directory: /j, maxMegabytes: -1}", "journal.maxMegabytes: Invalid value: -1: must be from 1 to 1048576"},
		"a journal at a wrong port":    {gangHeader + "journal: {directory: /j, port: 65536}", "journal.port: Invalid value: 65536: must be from 0 to 65535"},
		"a field of the journal":       {gangHeader + "journal: {directory: /j, size: 1}", `"journal.size"`},
		"a field of a level":           {gangHeader + "topologyLevels: [{name: a, label: x}]", `label"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args, err := DecodeGang(raw(test.yaml))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if args != nil {
				t.Errorf("arguments beside the error: %+v", args)
			}
			if err != nil && !strings.Contains(err.Error(), "plugin GPUGang") {
				t.Errorf("error %v does not name the plugin", err)
			}
		})
	}
}

func TestAllThatIsWrongIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := DecodeGang(raw(gangHeader + "maxRefusals: -1\nclaimSeconds: 0\nnodePools: ['']"))
	for _, field := range []string{"maxRefusals", "claimSeconds", "nodePools[0]"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v does not name %s", err, field)
		}
	}
}

func TestAPlacementThatThereIsNot(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"placement: Random", "placement: ''", "placement: packing"} {
		_, err := DecodeDevices(raw(devicesHeader + text))
		if err == nil || !strings.Contains(err.Error(), `placement: Unsupported value`) || !strings.Contains(err.Error(), `"Packing", "Scored"`) {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestArgumentsOfAnotherType(t *testing.T) {
	t.Parallel()
	if _, err := DecodeGang(&corev1.Pod{}); err == nil || !strings.Contains(err.Error(), "unexpected type *v1.Pod") {
		t.Errorf("error %v", err)
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	if got := Seconds(90); got != 90*time.Second {
		t.Errorf("%s", got)
	}
}
