// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// startLimit is how long NVIDIA's daemon may take to start and to answer.
const startLimit = 30 * time.Second

// TestHardware runs NVIDIA's control daemon, in directories of its own, and has it set limits.
// No program becomes a client: that needs CUDA.
func TestHardware(t *testing.T) {
	const program = "nvidia-cuda-mps-control"
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("this machine lacks NVIDIA's MPS, which comes with the driver: ", err)
	}
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		t.Skip("there are no GPUs here: ", err)
	}
	directory, err := os.MkdirTemp("", "mps") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	watcher := NewWatcher(directory, clock.RealClock{})
	supervisor := NewSupervisor(Config{Program: program, PipeDirectory: directory, LogDirectory: directory, Watcher: watcher, Clock: clock.RealClock{}})
	ended, err := supervisor.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		supervisor.quit(t.Context())
		select {
		case <-ended:
		case <-time.After(startLimit):
			t.Errorf("the daemon does not quit within %v", startLimit)
		}
	})
	for deadline := time.Now().Add(startLimit); !watcher.Running(); watcher.Check(t.Context()) {
		select {
		case err := <-ended:
			t.Fatalf("the daemon has ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the daemon does not run within %v: %v", startLimit, watcher.Status().Problem)
		}
		pause(t.Context(), clock.RealClock{}, 10*time.Millisecond)
	}
	order := func(text string) string {
		t.Helper()
		output, err := supervisor.ask(t.Context(), text).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", text, err, output)
		}
		t.Logf("%s: %s", text, output)
		return strings.TrimSpace(string(output))
	}
	for _, limit := range []struct{ set, get, value string }{
		{"set_default_active_thread_percentage 46", "get_default_active_thread_percentage", "46"},
		{"set_default_device_pinned_mem_limit 0 1G", "get_default_device_pinned_mem_limit 0", "1"},
	} {
		order(limit.set)
		if got := order(limit.get); !strings.Contains(got, limit.value) {
			t.Errorf("%s: the daemon says %q, want %s", limit.set, got, limit.value)
		}
	}
}
