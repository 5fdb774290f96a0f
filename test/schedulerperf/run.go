// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulerperf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

// The schedulers.
const (
	Stock = "stock"
	Ours  = "ours"
)

// Run is one run of a test case.
type Run struct {
	// Program is program_test.go, compiled; Localcluster is the program whose etcd is used.
	Program, Localcluster string
	Scheduler             string
	// Config is the configuration of the scheduler. Empty is upstream's own.
	Config []byte
	// Folder is upstream's folder of the test case, to which its paths are relative.
	Folder string
	Case   Case
	// Verbosity is that of the log.
	Verbosity int
	// State lets the program write down how the workload has ended.
	State bool
}

// WithProfile lets our scheduler run the test case with one of our profiles. Arguments of
// plugins in other configurations replace those of the profile.
func (r *Run) WithProfile(profile string, changes ...[]byte) error {
	theirs, err := r.upstreamConfig()
	if err != nil {
		return err
	}
	if r.Config, err = Config(profile, append(changes, theirs)...); err != nil {
		return err
	}
	r.Scheduler = Ours
	// As localcluster runs gpu-scheduler.
	r.Case = r.Case.WithGate("NominatedNodeNameForExpectation", false)
	return nil
}

// upstreamConfig reads the scheduler's configuration that the test case has of its own.
func (r *Run) upstreamConfig() ([]byte, error) {
	name := text(r.Case["schedulerConfigPath"])
	if name == "" {
		return nil, nil
	}
	return os.ReadFile(filepath.Join(r.Folder, name)) //nolint:gosec // a folder of upstream's
}

// Outcome is how a run has ended.
type Outcome struct {
	// Results is the file that scheduler_perf writes for its dashboard.
	Results []byte
	// State has the objects at the end, if they were wanted.
	State []byte
	// CPU is the CPU time of the whole program.
	CPU time.Duration
	// Output is what the program has printed, also when it has failed.
	Output []byte
}

// Do runs the test case on an API server and an etcd of its own. Failures of workloads are
// errors.
func (r *Run) Do(ctx context.Context) (outcome Outcome, err error) {
	dir, err := os.MkdirTemp("", "perf-")
	if err != nil {
		return outcome, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	command, err := r.command(ctx, dir)
	if err != nil {
		return outcome, err
	}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err = command.Run()
	outcome.Output = output.Bytes()
	if state := command.ProcessState; state != nil {
		outcome.CPU = state.UserTime() + state.SystemTime()
	}
	if r.State {
		outcome.State, _ = os.ReadFile(filepath.Join(dir, stateFile)) //nolint:gosec // our own folder
		if err == nil && outcome.State == nil {
			err = errors.New("the program has not written how the workload ended")
		}
	}
	if err != nil {
		return outcome, errors.Join(err, context.Cause(ctx))
	}
	files, err := filepath.Glob(filepath.Join(dir, "results", "*_benchmark_*.json"))
	if err != nil || len(files) != 1 {
		return outcome, errors.Join(fmt.Errorf("there are %d files of results", len(files)), err)
	}
	outcome.Results, err = os.ReadFile(files[0])
	return outcome, err
}

// Files in the folder of a run.
const (
	stateFile  = "state.json"
	configFile = "scheduler.yaml"
	caseFile   = "case.yaml"
)

func (r *Run) command(ctx context.Context, dir string) (*exec.Cmd, error) {
	program, err := filepath.Abs(r.Program)
	if err != nil {
		return nil, err
	}
	localcluster, err := filepath.Abs(r.Localcluster)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(provideEtcd(localcluster, dir), r.writeCase(dir)); err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, program, "-test.run=^$", "-test.bench=.", "-test.benchtime=1ns",
		"-perf-scheduling-label-filter=", "-data-items-dir="+filepath.Join(dir, "results"), fmt.Sprintf("-v=%d", r.Verbosity))
	command.Dir = r.Folder
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TMPDIR="+dir,
		"SCHEDULERPERF_SCHEDULER="+r.Scheduler, "SCHEDULERPERF_CASE="+filepath.Join(dir, caseFile))
	command.Env = append(command.Env, sources(r.Folder)...)
	if r.State {
		command.Env = append(command.Env, "SCHEDULERPERF_STATE="+filepath.Join(dir, stateFile))
	}
	// Its etcd must not outlive it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	return command, nil
}

// sources returns the variables by which upstream's API server for tests finds its files, given a folder of
// Kubernetes' sources. The program was compiled with -trimpath and only knows where they are
// below the module cache; these are the variables of Bazel, which does so, too.
func sources(folder string) []string {
	cache, _, _ := strings.Cut(folder, "/k8s.io/kubernetes@")
	return []string{"TEST_SRCDIR=" + cache, "TEST_WORKSPACE=."}
}

// writeCase writes the files for scheduler_perf.
func (r *Run) writeCase(dir string) error {
	one := r.Case
	if len(r.Config) > 0 {
		path := filepath.Join(dir, configFile)
		if err := os.WriteFile(path, r.Config, 0o600); err != nil {
			return err
		}
		one = one.copied()
		one["schedulerConfigPath"] = path
	}
	text, err := yaml.Marshal([]Case{one})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, caseFile), text, 0o600)
}
