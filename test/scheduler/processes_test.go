// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/artifacts"
	"falldio.github.io/gpu-controller/test/programs"
)

// arguments are the arguments of plugin GPUGang that differ from the shipped ones.
type arguments map[string]any

// schedulerConfig returns the shipped configuration with changed arguments.
func schedulerConfig(change arguments) (map[string]any, error) {
	text, err := artifacts.Files.ReadFile(artifacts.SchedulerConfig)
	if err != nil {
		return nil, err
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	for _, profile := range list(config["profiles"]) {
		for _, plugin := range list(object(profile)["pluginConfig"]) {
			if object(plugin)["name"] == "GPUGang" {
				maps.Copy(object(object(plugin)["args"]), change)
			}
		}
	}
	return config, nil
}

func object(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}

func list(value any) []any {
	items, _ := value.([]any)
	return items
}

// writeConfig writes a scheduler's configuration into a file of the test's and
// returns its path.
func writeConfig(t *testing.T, config map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// process is a scheduler that the test runs besides that of the cluster.
type process struct {
	s       *suite
	command *exec.Cmd
	log     *programs.Output
}

// The shipped configuration has these profiles.
const packing, spreading = 0, 1

// startScheduler runs one more gpu-scheduler, with a name and a lease of its own
// and one profile. It is stopped at the end of the test.
func (s *suite) startScheduler(name string, change arguments) *process {
	s.Helper()
	return s.startSchedulerAs(packing, name, change)
}

func (s *suite) startSchedulerAs(kind int, name string, change arguments) *process {
	s.Helper()
	return s.startSchedulerWith(s.schedulerConfigOf(kind, name, change))
}

// startSchedulerThrough starts a scheduler that uses a kubeconfig of its own.
func (s *suite) startSchedulerThrough(kubeconfig, name string) *process {
	s.Helper()
	config := s.schedulerConfigOf(packing, name, nil)
	object(config["clientConnection"])["kubeconfig"] = kubeconfig
	return s.startSchedulerWith(config)
}

// schedulerConfigOf returns the configuration of a scheduler with a name and a lease of
// its own and one profile.
func (s *suite) schedulerConfigOf(kind int, name string, change arguments) map[string]any {
	s.Helper()
	config, err := schedulerConfig(change)
	if err != nil {
		s.Fatal(err)
	}
	profile := object(list(config["profiles"])[kind])
	profile["schedulerName"] = name
	config["profiles"] = []any{profile}
	object(config["clientConnection"])["kubeconfig"] = s.schedulerKubeconfig()
	maps.Copy(object(config["leaderElection"]), map[string]any{
		"resourceName": name, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms",
	})
	return config
}

func (s *suite) startSchedulerWith(config map[string]any) *process {
	s.Helper()
	return s.startProcess(binary("gpu-scheduler"), "--config="+writeConfig(s.T, config),
		"--secure-port=0", "--feature-gates=NominatedNodeNameForExpectation=false")
}

// schedulerKubeconfig has the rights that artifacts/rbac gives gpu-scheduler.
func (c *testCluster) schedulerKubeconfig() string {
	return filepath.Join(c.Dir, "gpu-scheduler.kubeconfig")
}

func (s *suite) startProcess(path string, args ...string) *process {
	s.Helper()
	p := &process{s: s, command: exec.Command(path, args...), log: &programs.Output{}}
	p.command.Stdout, p.command.Stderr = p.log, p.log
	if err := p.command.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if p.command.ProcessState == nil {
			p.stop()
		}
		if s.Failed() {
			lines := strings.Split(p.log.String(), "\n")
			s.Logf("the end of the log of %s:\n%s", filepath.Base(path), strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})
	return p
}

func (p *process) stop() {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.s.Errorf("stopping a scheduler: %v", err)
	}
	hung := time.AfterFunc(limit, func() { _ = p.command.Process.Kill() })
	defer hung.Stop()
	_ = p.command.Wait() // a scheduler that loses its lease ends with an error
}

// kill kills a scheduler with SIGKILL.
func (p *process) kill() {
	p.s.Helper()
	p.s.ledger.killed(time.Now())
	if err := p.command.Process.Kill(); err != nil {
		p.s.Fatal(err)
	}
	_ = p.command.Wait() // its exit status is the signal's
}

// signal sends a signal.
func (p *process) signal(signal syscall.Signal) {
	p.s.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		p.s.Fatal(err)
	}
}

// waitForEnd waits until a scheduler has exited by itself.
func (p *process) waitForEnd() {
	p.s.Helper()
	hung := time.AfterFunc(limit, func() {
		p.s.Errorf("a scheduler has not ended within %v", limit)
		_ = p.command.Process.Kill()
	})
	defer hung.Stop()
	_ = p.command.Wait() // the test checks how it ends
}

// schedulerProcess finds the process of the cluster's own scheduler.
func (c *testCluster) schedulerProcess() (int, error) { return c.PID("gpu-scheduler") }

// kwokProcess finds the cluster's KWOK process.
func (c *testCluster) kwokProcess() (int, error) { return c.PID("kwok") }
