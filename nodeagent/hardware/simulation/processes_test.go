// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// procfs returns a procfs with the environments of processes.
func procfs(environments map[string][]string) fs.FS {
	files := fstest.MapFS{"version": {}, "self/environ": {Data: []byte("FALLDIO_GPU_0=" + UUID("n1", 0))}}
	for pid, environment := range environments {
		files[pid+"/environ"] = &fstest.MapFile{Data: []byte(strings.Join(environment, "\x00"))}
	}
	return files
}

func TestProcessesUseWhatTheyWereGiven(t *testing.T) {
	t.Parallel()
	given, second := UUID("n1", 0), UUID("n1", 1)
	tests := map[string]struct {
		environments map[string][]string
		// want is how much of the GPU 0 is used, by process.
		want map[int]float64
	}{
		"nobody":               {map[string][]string{"1": {"PATH=/bin"}, "2": {}}, nil},
		"a share by CDI":       {map[string][]string{"7": {"PATH=/bin", "FALLDIO_GPU_0=" + given, "GPU_SHARE_PERCENT=25"}}, map[int]float64{7: 0.25}},
		"a share by variable":  {map[string][]string{"7": {"GPU_SHARE_PERCENT=40", "FALLDIO_VISIBLE_DEVICES=" + given}}, map[int]float64{7: 0.4}},
		"all of several GPUs":  {map[string][]string{"7": {"FALLDIO_VISIBLE_DEVICES=" + second + "," + given}}, map[int]float64{7: 1}},
		"another GPU":          {map[string][]string{"7": {"FALLDIO_GPU_1=" + second, "GPU_SHARE_PERCENT=25"}}, nil},
		"another variable":     {map[string][]string{"7": {"NOTE=" + given, "ABOUT_FALLDIO_GPU=" + given}}, nil},
		"a share that is none": {map[string][]string{"7": {"FALLDIO_GPU_0=" + given, "GPU_SHARE_PERCENT=x"}}, map[int]float64{7: 1}},
		"two shares": {
			map[string][]string{"30": {"FALLDIO_GPU_0=" + given, "GPU_SHARE_PERCENT=50"}, "4": {"FALLDIO_GPU_0=" + given, "GPU_SHARE_PERCENT=25"}},
			map[int]float64{4: 0.25, 30: 0.5},
		},
		"several processes with the same share, never more than the GPU": {
			map[string][]string{"4": {"FALLDIO_GPU_0=" + given}, "5": {"FALLDIO_GPU_0=" + given}}, map[int]float64{4: 0.5, 5: 0.5},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := newSource(t, newClock())
			source.FindProcesses(procfs(test.environments))
			sample, err := source.Processes(given)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := source.Read(given)
			if err != nil {
				t.Fatal(err)
			}
			got := map[int]float64{}
			for _, process := range sample.Processes {
				got[process.PID] = process.Values[gpu.MemoryUsed] / whole.Values[gpu.MemoryUsed]
				if ratio := process.Values[gpu.Utilization] / whole.Values[gpu.Utilization]; math.Abs(ratio-got[process.PID]) > 1e-9 {
					t.Errorf("process %d uses %v of the utilization, %v of the memory", process.PID, ratio, got[process.PID])
				}
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateApprox(1e-12, 0), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("processes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProcessesOfSimulatedGPUsThatCantBeFound(t *testing.T) {
	t.Parallel()
	source := newSource(t, newClock())
	if _, err := source.Processes(UUID("n1", 0)); !errors.Is(err, gpu.ErrUnsupported) {
		t.Errorf("without a procfs: error %v", err)
	}
	source.FindProcesses(procfs(nil))
	inject(t, source, Fault{GPU: new(1), Fault: Lost})
	if _, err := source.Processes(UUID("n1", 1)); !errors.Is(err, gpu.ErrLost) {
		t.Errorf("of a lost GPU: error %v", err)
	}
}
