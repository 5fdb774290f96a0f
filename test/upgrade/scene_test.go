// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"falldio.github.io/gpu-controller/localcluster/profile"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/cluster"
	"falldio.github.io/gpu-controller/test/pace"
	"falldio.github.io/gpu-controller/test/programs"
)

const (
	// limit is how long the test waits for what normally takes seconds.
	limit     = 2 * time.Minute
	pollEvery = 100 * time.Millisecond
)

// The models of the GPUs of the nodes.
const (
	// modelWork is that of the tasks that are there before, modelNew that of those that come while
	// versions are mixed.
	modelWork, modelNew = "work", "new"
	// modelUp and modelDown are those of the tasks that are moved while the version changes.
	modelUp, modelDown = "up", "down"
)

// nodes are what the cluster has, as localcluster takes it.
var nodes = []string{
	"model=" + modelWork + ",count=26,gpus=8,gpu-memory=40960Mi",
	"model=" + modelNew + ",count=8,gpus=8,gpu-memory=40960Mi",
	"model=" + modelUp + ",count=2,gpus=8,gpu-memory=40960Mi",
	"model=" + modelDown + ",count=2,gpus=8,gpu-memory=40960Mi",
}

// scene is a cluster in which the processes are replaced.
type scene struct {
	*testing.T
	cluster *cluster.Cluster
	kube    kubernetes.Interface
	tasks   clientset.Interface
	http    *http.Client
	clock   *pace.Clock
	// binary is localcluster; agents is the file that names the nodes of the agent.
	binary, agents string
	// running are the processes by role, starts how many there have been, and logs their logs.
	running map[string]*process
	starts  int
	logs    []string
}

// newScene starts a cluster with the manifests and processes of a version.
func newScene(t *testing.T, localcluster string, v *version) *scene {
	t.Helper()
	s := &scene{T: t, binary: localcluster, clock: pace.Start(), running: map[string]*process{}}
	dir := s.folder()
	args := []string{"--scheduler=none", "--nodeagent=none", "--artifacts=" + v.manifests(), "--keep"}
	for _, group := range nodes {
		args = append(args, "--nodes="+group)
	}
	progress := &programs.Output{}
	running, err := cluster.Start(context.WithoutCancel(t.Context()), localcluster, filepath.Join(dir, "cluster"), progress, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	s.cluster = running
	t.Cleanup(func() {
		if err := running.Stop(); err != nil {
			t.Errorf("stopping the cluster: %v", err)
		}
	})
	t.Cleanup(s.showLogs)
	s.connect()
	s.writeAgents(filepath.Join(dir, "agents.yaml"))
	for _, role := range roles {
		s.start(role, v)
	}
	s.waitForNodes()
	return s
}

// folder returns a new folder, which is deleted at the end unless it is to be kept.
func (s *scene) folder() string {
	s.Helper()
	if !*keep {
		return s.TempDir()
	}
	dir, err := os.MkdirTemp("", "gpu-upgrade-test-")
	if err != nil {
		s.Fatal(err)
	}
	s.Log("the cluster is in ", dir)
	return dir
}

func (s *scene) connect() {
	s.Helper()
	config, err := s.cluster.Config()
	if err != nil {
		s.Fatal(err)
	}
	if s.kube, err = kubernetes.NewForConfig(config); err != nil {
		s.Fatal(err)
	}
	if s.tasks, err = clientset.NewForConfig(config); err != nil {
		s.Fatal(err)
	}
	if s.http, err = rest.HTTPClientFor(config); err != nil {
		s.Fatal(err)
	}
}

// writeAgents writes the file with the nodes whose agent nodeagent is.
func (s *scene) writeAgents(path string) {
	s.Helper()
	all, err := profile.Select("", nodes)
	if err != nil {
		s.Fatal(err)
	}
	text, err := all.Agents()
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		s.Fatal(err)
	}
	s.agents = path
}

// waitForNodes waits until the agent has described all nodes.
func (s *scene) waitForNodes() {
	s.Helper()
	s.eventually("all nodes have an inventory", func() (bool, string) {
		list, err := s.kube.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var missing []string
		for i := range list.Items {
			if list.Items[i].Annotations[inventory.Annotation] == "" {
				missing = append(missing, list.Items[i].Name)
			}
		}
		return len(missing) == 0, "missing: " + strings.Join(missing, ", ")
	})
}

// install applies the manifests of a version as docs/installation.md says.
func (s *scene) install(v *version) {
	s.Helper()
	s.kubectl("apply", "--server-side", "--force-conflicts", "--kustomize="+v.manifests("base"))
	s.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=1m")
	s.installNumbers(v)
}

func (s *scene) kubectl(args ...string) {
	s.Helper()
	environment := []string{"LOCALCLUSTER_DIR=" + s.cluster.Dir}
	if err := run(s.Context(), "", environment, append([]string{s.binary, "kubectl"}, args...)...); err != nil {
		s.Fatal(err)
	}
}

// eventually waits until a condition holds; its text describes the current state otherwise.
func (s *scene) eventually(what string, holds func() (bool, string)) {
	s.Helper()
	begin, began := s.clock.Elapsed(), time.Now()
	for {
		ok, instead := holds()
		if ok {
			return
		}
		if s.clock.Elapsed()-begin > limit {
			s.Fatalf("not within %v (%v on this machine): %s; instead: %s", limit, time.Since(began).Round(time.Second), what, instead)
		}
		time.Sleep(pollEvery)
	}
}

// showLogs shows the ends of the processes' logs if the test has failed.
func (s *scene) showLogs() {
	const lines = 30
	if !s.Failed() {
		return
	}
	for _, path := range s.logs {
		text, err := os.ReadFile(path)
		if err != nil {
			s.Log(err)
			continue
		}
		all := strings.Split(strings.TrimSpace(string(text)), "\n")
		s.Logf("the end of %s:\n%s", filepath.Base(path), strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
}
