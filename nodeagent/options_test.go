// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/resource"
)

// parse reads flags and environment as main does.
func parse(t *testing.T, environment map[string]string, args ...string) (*options, error) {
	t.Helper()
	opts := newOptions()
	flags := opts.flags()
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	opts.readEnvironment(flags, func(name string) string { return environment[name] })
	return opts, opts.complete(flags.Args())
}

// file writes a file and returns its path.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagsThatMakeNoSenseAreRefusedByName(t *testing.T) {
	t.Parallel()
	broken := file(t, "[{}]")
	for _, test := range []struct{ args, want string }{
		{"--node-name=", "--node-name: must be given, or NODE_NAME be set"},
		{"--source=dcgm", "--source=dcgm: must be auto, nvml or simulated"},
		{"--poll-schedule=*/5 * * * *", "--poll-schedule: expected exactly 6 fields"},
		{"--poll-schedule=", "--poll-schedule: empty spec string"},
		{"--poll-schedule=TZ=UTC", `--poll-schedule: "TZ=UTC": there is only a time zone`},
		{"--poll-schedule=CRON_TZ=", `--poll-schedule: "CRON_TZ=": there is only a time zone`},
		{"--poll-schedule=TZ=Moon/Base * * * * * *", "--poll-schedule: provided bad location Moon/Base"},
		{"--poll-schedule=0 0 0 31 2 *", `--poll-schedule: "0 0 0 31 2 *": the schedule never fires`},
		{"--poll-deadline=0s", "--poll-deadline=0s: must be greater than 0"},
		{"--pcie-interval=-1s", "--pcie-interval=-1s: must not be negative"},
		{"--xid-policy=94=maybe", `--xid-policy: "94=maybe": expected XID=REACTION`},
		{"--xid-policy=all=quiet", `--xid-policy: "all=quiet": "all" is neither the number of an XID nor "default"`},
		{"--recovery-period=-1s", "--recovery-period=-1s: must not be negative"},
		{"--gpu-model=RTX 4090", "--gpu-model=RTX 4090: a valid label must be"},
		{"--label-interval=-1m", "--label-interval=-1m0s: must not be negative"},
		{"--mig=mixed", "--mig=mixed: must be slices or none"},
		{"--resource=gpu", `--resource: "gpu": resource "gpu": must be a domain and a name`},
		{"--resource=falldio.com/gpu=some", `--resource: "falldio.com/gpu=some": source "some": must be gpus, shares, simulated:COUNT or none`},
		{"--simulation-profile=/nowhere", "--simulation-profile: reading the simulation's profile: open /nowhere"},
		{"--simulation-profile=" + broken, "--simulation-profile: " + broken + ": "},
		{"--simulated-nodes=/nowhere", "--simulated-nodes: reading the simulated nodes: open /nowhere"},
		{"--simulated-nodes=" + broken, "--simulated-nodes: " + broken + ": nodes[0].name: Required"},
		{"--simulated-nodes=" + file(t, "[]"), "--simulated-nodes: the file has no nodes"},
		{"--simulation-faults=/x", "--simulation-faults: the GPUs are not simulated; add --source=simulated"},
		{"--source=nvml --simulation-profile=" + file(t, "count: 3"), "--simulation-profile: has no meaning with --source=nvml"},
		{"--source=nvml --simulated-nodes=" + file(t, "[{name: n1}]"), "--simulated-nodes: has no meaning with --source=nvml"},
		{"--visible-devices-env=A-B", "--visible-devices-env=A-B: must be the name of an environment variable"},
		{"--cdi-kind=gpu", "--cdi-kind=gpu: must be a vendor and a class, for example nvidia.com/gpu"},
		{"--mps-pipe-directory=nvidia-mps", "--mps-pipe-directory=nvidia-mps: must be an absolute path"},
		{"--mps=on", "--mps=on: must be off, external or managed"},
		{"--mps=external", "--mps=external: needs --mps-pipe-directory"},
		{"--mps=managed", "--mps=managed: needs --mps-pipe-directory"},
		{"--mps-shm-directory=/run/shm", "--mps-shm-directory: needs --mps-pipe-directory"},
		{"--mps-pipe-directory=/run/mps --mps-shm-directory=shm", "--mps-shm-directory=shm: must be an absolute path"},
		{"--mps-log-directory=log", "--mps-log-directory=log: must be an absolute path"},
		{"--mps-control-program=", "--mps-control-program: must not be empty"},
		{"--escalate-after=-1", "--escalate-after=-1: must be between 0 and 20"},
		{"--escalate-after=21", "--escalate-after=21: must be between 0 and 20"},
		{"--escalation-window=0s", "--escalation-window=0s: must be greater than 0"},
		{"--share-memory-limits=on", "--share-memory-limits=on: must be off or driver"},
		{"--process-metrics=some", "--process-metrics=some: must be shared, all or off"},
		{"--expected-gpus=-1", "--expected-gpus=-1: must not be negative"},
		{"--expected-gpus=8 --simulated-nodes=" + file(t, "[{name: n1}]"), "--expected-gpus: has no meaning with --simulated-nodes"},
		{"--kubelet-directory=kubelet", "--kubelet-directory=kubelet: must be an absolute path"},
		{"--resource=falldio.com/gpu=gpus --resource=nvidia.com/gpu=gpus", "--resource: \"nvidia.com/gpu=gpus\": the GPUs are served as falldio.com/gpu already"},
		{"up", `unexpected arguments ["up"]`},
	} {
		if _, err := parse(t, map[string]string{"NODE_NAME": ""}, append([]string{"--node-name=n1"}, split(test.args)...)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q in it", test.args, err, test.want)
		}
	}
}

// split separates flags; cron specs have spaces as well.
func split(args string) []string {
	first, rest, found := strings.Cut(args, " --")
	if !found {
		return []string{args}
	}
	return append([]string{first}, split("--"+rest)...)
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	_, err := parse(t, nil, "--source=x", "--poll-schedule=x", "--resource=x")
	for _, flag := range []string{"--node-name", "--source", "--poll-schedule", "--resource"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("got error %v, want %s in it", err, flag)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	opts, err := parse(t, nil, "--node-name=n1")
	if err != nil {
		t.Fatal(err)
	}
	want := []resource.Spec{
		{Name: "falldio.com/gpu", Kind: resource.GPUs, Environment: "NVIDIA_VISIBLE_DEVICES"},
		{Name: "falldio.com/gpu-percent", Kind: resource.Shares, Environment: "NVIDIA_VISIBLE_DEVICES"},
	}
	if diff := cmp.Diff(want, opts.served); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(health.DefaultPolicy(), opts.Policy); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	if *opts.Profile.Count != 8 || opts.Simulated() || opts.Fleet != nil {
		t.Errorf("%d simulated GPUs, %v, %v", *opts.Profile.Count, opts.Simulated(), opts.Fleet)
	}
	if gap := gapOf(opts); gap != 5*time.Second {
		t.Errorf("the GPUs are polled every %v", gap)
	}
}

// gapOf is the time between two polls.
func gapOf(opts *options) time.Duration {
	first := opts.schedule.Next(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	return opts.schedule.Next(first).Sub(first)
}

func TestEnvironmentOfTheFirstVersionIsRead(t *testing.T) {
	t.Parallel()
	type result struct {
		Node, Resources string
		Gap             time.Duration
	}
	const gpus = "falldio.com/gpu falldio.com/gpu-percent"
	environment := map[string]string{
		"NODE_NAME": "from-environment", "MONITOR_GPU_INTERVAL_PATTERN": "*/10 * * * * ?", "resourcename": "falldio.com/rdma",
	}
	tests := map[string]struct {
		environment map[string]string
		args        []string
		want        result
	}{
		"nothing but the node": {
			map[string]string{"NODE_NAME": "n1"}, nil, result{"n1", gpus, 5 * time.Second},
		},
		"the schedule of the first version's manifests": {
			map[string]string{"NODE_NAME": "n1", "MONITOR_GPU_INTERVAL_PATTERN": "*/5 * * * * ?"}, nil, result{"n1", gpus, 5 * time.Second},
		},
		"everything": {
			environment, nil, result{"from-environment", "falldio.com/rdma", 10 * time.Second},
		},
		"variables that are empty are not there": {
			map[string]string{"NODE_NAME": "", "MONITOR_GPU_INTERVAL_PATTERN": "", "resourcename": ""},
			[]string{"--node-name=n1"}, result{"n1", gpus, 5 * time.Second},
		},
		"flags come first": {
			environment, []string{"--node-name=n1", "--poll-schedule=@every 1m", "--resource=falldio.com/nic"},
			result{"n1", "falldio.com/nic", time.Minute},
		},
		"flags that say the default come first, too": {
			environment, []string{"--poll-schedule=*/5 * * * * *", "--resource=falldio.com/gpu"},
			result{"from-environment", gpus, 5 * time.Second},
		},
		"one flag does not hide the other variables": {
			environment, []string{"--node-name=n1"}, result{"n1", "falldio.com/rdma", 10 * time.Second},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, err := parse(t, test.environment, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			_, names := namesOf(opts.served)
			if diff := cmp.Diff(test.want, result{opts.nodeName, strings.Join(names, " "), gapOf(opts)}); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnvironmentThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	for variable, test := range map[string]struct{ value, want string }{
		"MONITOR_GPU_INTERVAL_PATTERN": {"often", "MONITOR_GPU_INTERVAL_PATTERN: expected exactly 6 fields"},
		"resourcename":                 {"gpu", `resourcename: "gpu"`},
	} {
		_, err := parse(t, map[string]string{"NODE_NAME": "n1", variable: test.value})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%s: got error %v, want %q in it", variable, test.value, err, test.want)
		}
	}
}

func TestGPUsAreSimulatedOnRequest(t *testing.T) {
	t.Parallel()
	profile, fleet := file(t, "count: 3"), file(t, "[{name: n1}, {name: n2, profile: {count: 1}}]")
	tests := map[string]struct {
		args []string
		want bool
		gpus int
	}{
		"by default not":                   {[]string{"--node-name=n1"}, false, 8},
		"by the source":                    {[]string{"--node-name=n1", "--source=simulated"}, true, 8},
		"by a profile":                     {[]string{"--node-name=n1", "--simulation-profile=" + profile}, true, 3},
		"not if NVML is asked for":         {[]string{"--node-name=n1", "--source=nvml"}, false, 8},
		"by a list of nodes, without name": {[]string{"--simulated-nodes=" + fleet}, true, 8},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, err := parse(t, nil, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if opts.Simulated() != test.want || *opts.Profile.Count != test.gpus {
				t.Errorf("simulated: %v, want %v; %d GPUs, want %d", opts.Simulated(), test.want, *opts.Profile.Count, test.gpus)
			}
		})
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add("n1", "*/5 * * * * ?", "falldio.com/gpu")
	f.Add("", "@every 1h30m", "falldio.com/rdma=simulated:4,env=RDMA")
	f.Add("n1", "TZ=UTC 0-59/7 * * * JAN-MAR SUN", "a/b")
	f.Add("n1", "CRON_TZ=UTC", "=")
	f.Fuzz(func(t *testing.T, node, schedule, name string) {
		values := map[string]string{"NODE_NAME": node, "MONITOR_GPU_INTERVAL_PATTERN": schedule, "resourcename": name}
		opts, err := parse(t, values)
		if err != nil {
			if !strings.Contains(err.Error(), "--node-name") && !strings.Contains(err.Error(), "MONITOR_GPU_INTERVAL_PATTERN") && !strings.Contains(err.Error(), "resourcename") {
				t.Errorf("%q: the error names no setting: %v", values, err)
			}
			return
		}
		if opts.nodeName != node || len(opts.served) > 2 || gapOf(opts) <= 0 {
			t.Errorf("%q: node %q, resources %v, every %v", values, opts.nodeName, opts.served, gapOf(opts))
		}
	})
}
