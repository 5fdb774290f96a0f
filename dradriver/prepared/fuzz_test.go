// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prepared

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzStore reads any text as the list of prepared claims. What is accepted is written and read again
// as it was, has CDI specifications, and has no share that hides another one.
func FuzzStore(f *testing.F) {
	f.Add([]byte(`{"version":"v1","claims":[{"uid":"u","namespace":"ns","name":"a","devices":[{"name":"gpu-a","uuid":"GPU-a","request":"gpu","shareID":"s","percent":46},{"name":"gpu-b","uuid":"GPU-b","percent":100,"admin":true}]}]}`), []byte(nil))
	f.Add([]byte(`{"version":"v1","claims":[{"uid":"u"},{"uid":"u","name":"b"},null]}`), []byte(nil))
	f.Add([]byte(`{"version":"v1","claims":[{"uid":"u","devices":[{"uuid":"GPU-a","percent":100},{"uuid":"GPU-a","percent":100}]}]}`), []byte(nil))
	f.Fuzz(func(t *testing.T, text []byte, edits []byte) {
		text = fuzzjson.Edit(text, edits)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, checkpointFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		var store *Store
		var err error
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(text), func() { store, err = OpenStore(dir) })
		if err != nil {
			return
		}
		claims := store.All()
		if err := store.Put(Claim{UID: "another", Namespace: "ns", Name: "another"}); err != nil {
			t.Fatal(err)
		}
		if err := store.Delete("another"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(store.All(), opened(t, dir).All()); diff != "" {
			t.Errorf("written and read again (-before +after):\n%s", diff)
		}
		for _, claim := range claims {
			checkPrepared(t, claim, claims)
		}
	})
}

func checkPrepared(t *testing.T, claim Claim, all []Claim) {
	t.Helper()
	if spec := claim.Spec(); spec != nil && len(spec.Devices) > len(claim.Devices) {
		t.Errorf("%d devices are described, the claim has %d", len(spec.Devices), len(claim.Devices))
	}
	for place := range claim.Devices {
		if len(claim.CDIDevices(place)) == 0 {
			t.Errorf("device %d has no name", place)
		}
	}
	for _, device := range claim.Devices {
		// A whole GPU that somebody has is no GPU for anybody else.
		other := Claim{UID: "other", Devices: []Device{{UUID: device.UUID, Percent: share.PerGPU}}}
		if conflict := FindConflict(other, all); conflict == nil && !device.Admin {
			t.Errorf("GPU %s can be given away beside %+v", device.UUID, claim)
		}
	}
}

// FuzzClaim reads any object as a ResourceClaim that is allocated. What is prepared of it are shares
// from 1 to 100 percent of GPUs of this node.
func FuzzClaim(f *testing.F) {
	text, err := json.Marshal(allocatedClaim(result("gpu-a", percent("46")), result("gpu-b", nil)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, []byte(nil))
	f.Add([]byte(`{"status":{"allocation":{"devices":{"results":[{"driver":"gpu.falldio.com","pool":"node-1","device":"a","consumedCapacity":{"percent":"9E"}},{"driver":"other","pool":""}],`+
		`"config":[{"source":"FromClaim","opaque":{"driver":"gpu.falldio.com","parameters":{"kind":"any"}}}]}}}}`), []byte(nil))
	f.Fuzz(func(t *testing.T, text []byte, edits []byte) {
		text = fuzzjson.Edit(text, edits)
		claim := &resourceapi.ResourceClaim{}
		if json.Unmarshal(text, claim) != nil {
			return
		}
		prepared, err := Of(claim, node)
		if err != nil {
			return
		}
		for _, device := range prepared.Devices {
			if device.Percent < 1 || device.Percent > share.PerGPU {
				t.Errorf("%d %% of GPU %s are prepared", device.Percent, device.Name)
			}
		}
		if again, err := Of(claim, node); err != nil || !prepared.Same(again) {
			t.Errorf("%+v and then %+v: %v", prepared, again, err)
		}
	})
}
