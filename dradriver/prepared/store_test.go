// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prepared

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func opened(t *testing.T, dir string) *Store {
	t.Helper()
	store, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestPreparedClaimsSurviveTheDriver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := opened(t, dir)
	whole, share := holding("whole", "GPU-a:100", "!GPU-b:100"), holding("share", "GPU-c:46")
	share.Devices[0].ShareID = new(types.UID("s"))
	for _, claim := range []Claim{whole, share, holding("gone", "GPU-d:100")} {
		if err := store.Put(claim); err != nil {
			t.Fatal(err)
		}
	}
	for _, uid := range []types.UID{"gone", "never there"} {
		if err := store.Delete(uid); err != nil {
			t.Fatal(err)
		}
	}
	for name, one := range map[string]*Store{"this run": store, "the next run": opened(t, dir)} {
		if diff := cmp.Diff([]Claim{share, whole}, one.All()); diff != "" {
			t.Errorf("the claims of %s (-want +got):\n%s", name, diff)
		}
		if got, found := one.Get("share"); !found || !got.Same(share) {
			t.Errorf("%s has %v, %v", name, got, found)
		}
		if _, found := one.Get("gone"); found {
			t.Errorf("%s has a claim that has been released", name)
		}
	}
}

// TestAClaimThatCanNotBeNotedIsNotPrepared makes the file unwritable.
func TestAClaimThatCanNotBeNotedIsNotPrepared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := opened(t, dir)
	if err := store.Put(holding("before", "GPU-a:100")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, checkpointFile+".tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := store.Put(holding("after", "GPU-b:100")); err == nil {
		t.Error("the claim counts as noted")
	}
	if err := store.Delete("before"); err == nil {
		t.Error("the claim counts as released")
	}
	if diff := cmp.Diff([]Claim{holding("before", "GPU-a:100")}, store.All()); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

func TestAFileThatCanNotBeReadEndsTheDriver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ content, want string }{
		"broken":                 {`{"version": "v1", "claims": [`, "drain the node, then remove the file"},
		"of a later version":     {`{"version": "v2"}`, `has the version "v2", which this program does not know`},
		"of nobody knows whom":   {`{}`, `has the version ""`},
		"a claim without a UID":  {`{"version": "v1", "claims": [{"name": "a"}]}`, "the uid is missing; drain the node"},
		"a share that is none":   {`{"version": "v1", "claims": [{"uid": "u", "namespace": "ns", "name": "a", "devices": [{"uuid": "GPU-a", "percent": -50}]}]}`, "ResourceClaim ns/a: devices[0].percent: must be from 1 to 100, is -50; drain the node"},
		"a claim without fields": {`{"version": "v1", "claims": [1]}`, "drain the node"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, checkpointFile), []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenStore(dir); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("a file that is %s: %v, want %s", name, err, test.want)
		}
	}
}
