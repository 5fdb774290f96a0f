// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/allocation"
)

// gpus returns healthy GPUs in pairs.
func gpus(ids ...string) []Device {
	devices := make([]Device, len(ids))
	for place, id := range ids {
		devices[place] = Device{ID: id, Healthy: true, NVLinkGroup: place / 2, NUMANode: 0}
	}
	return devices
}

func poolOf(tb testing.TB, devices []Device) *Pool {
	tb.Helper()
	pool := NewPool()
	if err := pool.Set(devices, nil); err != nil {
		tb.Fatal(err)
	}
	return pool
}

// describe renders devices as their IDs, with a minus if they are unhealthy.
func describe(pool *Pool) string {
	var words []string
	for _, device := range pool.Devices() {
		if device.Healthy {
			words = append(words, device.ID)
		} else {
			words = append(words, "-"+device.ID)
		}
	}
	return strings.Join(words, " ")
}

func TestThePoolNeverShrinks(t *testing.T) {
	t.Parallel()
	pool := NewPool()
	if pool.ready() {
		t.Error("a pool without devices is ready")
	}
	pool.Hold("x", "b")
	if pool.ready() {
		t.Error("a pool with nothing but held devices is ready")
	}
	steps := []struct {
		what    string
		devices []Device
		want    string
	}{
		{"a held device that is absent is unhealthy", gpus("a", "b", "c"), "a b c -x"},
		{"one that disappears is unhealthy, behind the others", gpus("c", "b"), "c b -a -x"},
		{"one that is back is healthy", gpus("b", "a", "c"), "b a c -x"},
		{"all may disappear", nil, "-a -b -c -x"},
	}
	for _, step := range steps {
		if err := pool.Set(step.devices, nil); err != nil {
			t.Fatal(err)
		}
		if got := describe(pool); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
		if !pool.ready() {
			t.Error("the pool is not ready")
		}
	}
}

func TestThePoolReportsChangesOnly(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, gpus("a", "b"))
	_, changed := pool.list()
	reported := func() bool {
		select {
		case <-changed:
			_, changed = pool.list()
			return true
		default:
			return false
		}
	}
	steps := []struct {
		what string
		do   func() error
		want bool
	}{
		{"the same devices", func() error { return pool.Set(gpus("a", "b"), nil) }, false},
		{"links", func() error { return pool.Set(gpus("a", "b"), [][]int{{0, 1}, {1, 0}}) }, true},
		{"the same links", func() error { return pool.Set(gpus("a", "b"), [][]int{{0, 1}, {1, 0}}) }, false},
		{"other links", func() error { return pool.Set(gpus("a", "b"), [][]int{{0, 2}, {2, 0}}) }, true},
		{"an unhealthy device", func() error { return pool.Set([]Device{{ID: "a"}, gpus("b")[0]}, nil) }, true},
		{"a device that is known", func() error { pool.Hold("a"); return nil }, false},
		{"a device that is not", func() error { pool.Hold("z"); return nil }, true},
		{"once more", func() error { pool.Hold("z"); return nil }, false},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := reported(); got != step.want {
			t.Errorf("%s: reported = %v, want %v", step.what, got, step.want)
		}
	}
}

func TestThePoolRefusesContradictions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		devices []Device
		links   [][]int
	}{
		"a duplicate device":     {gpus("a", "a"), nil},
		"a device without an ID": {gpus(""), nil},
		"links of another node":  {gpus("a"), [][]int{{0, 1}, {1, 0}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := poolOf(t, gpus("x"))
			if err := pool.Set(test.devices, test.links); err == nil {
				t.Error("Set() succeeded")
			}
			if got := describe(pool); got != "x" {
				t.Errorf("the pool has changed to %s", got)
			}
		})
	}
}

func TestCounted(t *testing.T) {
	t.Parallel()
	want := []Device{
		{ID: "rdma-0", Healthy: true, NVLinkGroup: allocation.Unknown, NUMANode: allocation.Unknown},
		{ID: "rdma-1", Healthy: true, NVLinkGroup: allocation.Unknown, NUMANode: allocation.Unknown},
	}
	if diff := cmp.Diff(want, Counted("rdma", 2)); diff != "" {
		t.Errorf("Counted() (-want +got):\n%s", diff)
	}
}
