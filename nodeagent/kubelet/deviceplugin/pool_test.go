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

// describe shows a device as its ID, with a minus if it is unhealthy.
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
		t.Error("a pool that nobody has set is ready")
	}
	pool.Hold("x", "b")
	if pool.ready() {
		t.Error("a pool that nobody has set is ready with what containers hold")
	}
	steps := []struct {
		what    string
		devices []Device
		want    string
	}{
		{"what is held and not there is unhealthy", gpus("a", "b", "c"), "a b c -x"},
		{"what vanishes is unhealthy, behind the others", gpus("c", "b"), "c b -a -x"},
		{"what comes back is as good as ever", gpus("b", "a", "c"), "b a c -x"},
		{"everything may vanish", nil, "-a -b -c -x"},
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

func TestThePoolTellsOnlyNews(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, gpus("a", "b"))
	_, changed := pool.list()
	told := func() bool {
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
		{"a sick device", func() error { return pool.Set([]Device{{ID: "a"}, gpus("b")[0]}, nil) }, true},
		{"a device that is known", func() error { pool.Hold("a"); return nil }, false},
		{"a device that is not", func() error { pool.Hold("z"); return nil }, true},
		{"once more", func() error { pool.Hold("z"); return nil }, false},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := told(); got != step.want {
			t.Errorf("%s: told = %v, want %v", step.what, got, step.want)
		}
	}
}

func TestThePoolRefusesContradictions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		devices []Device
		links   [][]int
	}{
		"a device that is there twice": {gpus("a", "a"), nil},
		"a device without an ID":       {gpus(""), nil},
		"links of another node":        {gpus("a"), [][]int{{0, 1}, {1, 0}}},
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
