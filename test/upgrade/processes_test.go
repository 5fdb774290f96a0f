// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// The processes that are replaced.
const (
	controller = "gpu-controller"
	scheduler  = "gpu-scheduler"
	agent      = "nodeagent"
)

var roles = []string{controller, scheduler, agent}

// process is a process of one version.
type process struct {
	version *version
	command *exec.Cmd
	// ready is the address of its readiness probe.
	ready string
	// ended is closed when it has ended; err is how.
	ended chan struct{}
	err   error
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// replace replaces a process by that of another version, as its Deployment or DaemonSet would:
// replicas come before their predecessors go, agents afterwards.
func (s *scene) replace(role string, v *version) {
	s.Helper()
	old := s.running[role]
	if role == agent {
		s.terminate(role, old)
		s.start(role, v)
		return
	}
	s.start(role, v)
	s.terminate(role, old)
}

// start starts a process and returns when it is ready.
func (s *scene) start(role string, v *version) {
	s.Helper()
	s.starts++
	port := s.freePort()
	args, ready := s.arguments(role, v, port)
	log, err := os.Create(filepath.Join(s.cluster.Dir, "logs", fmt.Sprintf("%02d-%s-%s.log", s.starts, v.name, role)))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has its own copy
	p := &process{version: v, command: exec.Command(v.program(role), args...), ready: ready, ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.ended)
	}()
	s.logs = append(s.logs, log.Name())
	s.running[role] = p
	s.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
	})
	s.eventually(fmt.Sprintf("the %s %s is ready", v.name, role), func() (bool, string) {
		if p.hasEnded() {
			s.Fatalf("the %s %s has ended: %v", v.name, role, p.err)
		}
		return s.answers(p.ready)
	})
}

// answers reports whether a probe succeeds, and otherwise what it says.
func (s *scene) answers(url string) (bool, string) {
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, url, nil)
	if err != nil {
		return false, err.Error()
	}
	response, err := s.http.Do(request)
	if err != nil {
		return false, err.Error()
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK, response.Status
}

// terminate ends a process as the kubelet does.
func (s *scene) terminate(role string, p *process) {
	s.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.Fatal(err)
	}
	s.eventually(fmt.Sprintf("the %s %s has ended", p.version.name, role), func() (bool, string) {
		return p.hasEnded(), "it still runs"
	})
	if p.err != nil {
		s.Errorf("the %s %s ended with: %v", p.version.name, role, p.err)
	}
}

// arguments returns the arguments of a process, those of its version's manifests among them, and
// the address of its readiness probe.
func (s *scene) arguments(role string, v *version, port string) (args []string, ready string) {
	s.Helper()
	address := net.JoinHostPort("127.0.0.1", port)
	kubeconfig := "--kubeconfig=" + filepath.Join(s.cluster.Dir, role+".kubeconfig")
	switch role {
	case controller:
		return append(s.shippedArguments(v, role, "controller"),
			kubeconfig, "--metrics-bind-address="+address, "--leader-elect-retry-period="+retryPeriod,
			"--retry-backoff=1s", "--reschedule-period=1s", "--reschedule-patience=1s", "--reschedule-threshold=0",
			// The moves are held up on purpose.
			"--reschedule-move-timeout=30m",
		), "http://" + address + "/readyz"
	case scheduler:
		certificate := filepath.Join(s.cluster.Dir, "pki", "server")
		return append(s.shippedArguments(v, role, "scheduler"),
			"--config="+s.schedulerConfig(v), "--bind-address=127.0.0.1", "--secure-port="+port,
			"--tls-cert-file="+certificate+".crt", "--tls-private-key-file="+certificate+".key",
			"--authentication-skip-lookup", "--client-ca-file="+filepath.Join(s.cluster.Dir, "pki", "ca.crt"),
			"--authentication-"+kubeconfig[2:], "--authorization-"+kubeconfig[2:],
		), "https://" + address + "/readyz"
	default:
		return []string{
			"--kubeconfig=" + s.cluster.Kubeconfig(), "--as=system:serviceaccount:nodeagent-system:nodeagent",
			"--simulated-nodes=" + s.agents, "--bind-address=" + address,
		}, "http://" + address + "/readyz"
	}
}

// retryPeriod is how often a replica looks whether the lease has been released.
const retryPeriod = "500ms"

// shippedArguments returns the arguments in the Deployment of a process.
func (s *scene) shippedArguments(v *version, role, folder string) []string {
	s.Helper()
	text, err := os.ReadFile(v.manifests(folder, "deployment.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	deployment := &appsv1.Deployment{}
	if err := yaml.Unmarshal(text, deployment); err != nil {
		s.Fatal(err)
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name == role {
			return container.Args
		}
	}
	s.Fatalf("the Deployment in %s has no container %s", folder, role)
	return nil
}

// schedulerConfig returns the file with the configuration that a version ships, adapted to a
// scheduler outside the cluster.
func (s *scene) schedulerConfig(v *version) string {
	s.Helper()
	text, err := os.ReadFile(v.manifests("scheduler", "config.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		s.Fatal(err)
	}
	config["clientConnection"].(map[string]any)["kubeconfig"] = filepath.Join(s.cluster.Dir, scheduler+".kubeconfig")
	config["leaderElection"].(map[string]any)["retryPeriod"] = retryPeriod
	if text, err = yaml.Marshal(config); err != nil {
		s.Fatal(err)
	}
	path := filepath.Join(s.cluster.Dir, v.name+"-scheduler.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

func (s *scene) freePort() string {
	s.Helper()
	listener, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		s.Fatal(err)
	}
	return port
}

// versions describes which version of each process runs.
func (s *scene) versions() string {
	var texts []string
	for _, role := range roles {
		texts = append(texts, s.running[role].version.name+" "+role)
	}
	return strings.Join(texts, ", ")
}
