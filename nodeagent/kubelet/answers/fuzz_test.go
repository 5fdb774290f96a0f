// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzParse reads any text as the kubelet's file. Answers are those about the resource that was asked
// for, with their devices in order and once, and reading is repeatable.
func FuzzParse(f *testing.F) {
	f.Add([]byte(recorded), []byte(nil))
	f.Add([]byte(`{"Data":{"PodDeviceEntries":[{"ResourceName":"falldio.com/gpu-percent","DeviceIDs":{"-9223372036854775808":["b","a","a"],"0":null},"AllocResp":"CgA="}]}}`), []byte(nil))
	f.Add([]byte(`{"Data":{"PodDeviceEntries":[null,{"ResourceName":"falldio.com/gpu-percent","AllocResp":"/////w8="}]}}`), []byte(nil))
	f.Fuzz(func(t *testing.T, data []byte, edits []byte) {
		data = fuzzjson.Edit(data, edits)
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(data), func() {
			answers, err := parse(data, percent)
			if err != nil {
				return
			}
			again, err := parse(data, percent)
			if err != nil || len(again) != len(answers) {
				t.Errorf("read again there are %d of %d answers: %v", len(again), len(answers), err)
			}
			for key, answer := range answers {
				if key.Resource != percent || answer.Response == nil {
					t.Errorf("%+v has the answer %+v", key, answer)
				}
				if !slices.IsSorted(answer.DeviceIDs) || len(slices.Compact(slices.Clone(answer.DeviceIDs))) != len(answer.DeviceIDs) {
					t.Errorf("%+v has the devices %q", key, answer.DeviceIDs)
				}
			}
		})
	})
}
