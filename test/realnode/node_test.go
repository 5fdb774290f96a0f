// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
)

const (
	// startLimit is how long the control plane, and then the kubelet, may take
	// to start on a busy machine.
	startLimit = 3 * time.Minute
	pollEvery  = 50 * time.Millisecond
)

// realNode is a node that really runs containers, with its control plane and
// clients that have all rights.
type realNode struct {
	dir    string
	cgroup string

	cluster, containerd, kubelet, agent *program
	// driver is the DRA driver; nil outside of the scenes about it.
	driver *program

	config *rest.Config
	kube   kubernetes.Interface
	tasks  clientset.Interface
}

func newRealNode(dir, cgroup string) *realNode {
	n := &realNode{dir: dir, cgroup: cgroup}
	// localcluster requires at least one node of its own; this one is unused.
	n.cluster = newProgram(dir, localcluster, binary(localcluster), "up", "--dir="+n.clusterDir(), "--nodeagent=none",
		"--nodes=name=other,model=none,count=1,gpus=1,gpu-memory=1Gi", "--start-timeout="+startLimit.String(),
		"--apiserver-arg=--authorization-config="+n.authorizationConfig())
	return n
}

func (n *realNode) clusterDir() string { return filepath.Join(n.dir, "cluster") }

// kubeconfig appears when the control plane is ready. It has all rights.
func (n *realNode) kubeconfig() string { return filepath.Join(n.clusterDir(), "kubeconfig") }

// start returns when the kubelet has registered the node. The agent does not
// run yet.
func (n *realNode) start() error {
	if err := n.writeAuthorizationConfig(); err != nil {
		return err
	}
	if err := n.cluster.start(); err != nil {
		return err
	}
	// Meanwhile:
	if err := n.startContainerd(); err != nil {
		return err
	}
	err := n.cluster.waitUntil(startLimit, func() error {
		_, err := os.Stat(n.kubeconfig())
		return err
	})
	if err != nil {
		return err
	}
	if err := n.connect(); err != nil {
		return err
	}
	return n.startKubelet()
}

func (n *realNode) startContainerd() error {
	var err error
	if n.containerd, err = newContainerd(n.dir); err != nil {
		return err
	}
	if err := n.containerd.start(); err != nil {
		return err
	}
	if err := n.containerd.waitUntil(containerdLimit, containerdReady); err != nil {
		return err
	}
	for program, names := range map[string][]string{
		filepath.Join(n.dir, appProgram): {appImage, pauseImage},
		binary(agentProgram):             {agentImage},
		binary(driverProgram):            {driverImage},
	} {
		archive := filepath.Join(n.dir, filepath.Base(program)+".tar")
		if err := writeImage(archive, program, names...); err != nil {
			return err
		}
		if err := importImage(archive); err != nil {
			return err
		}
	}
	return nil
}

func (n *realNode) connect() error {
	var err error
	if n.config, err = clientcmd.BuildConfigFromFlags("", n.kubeconfig()); err != nil {
		return err
	}
	n.config.QPS = -1
	if n.kube, err = kubernetes.NewForConfig(n.config); err != nil {
		return err
	}
	n.tasks, err = clientset.NewForConfig(n.config)
	return err
}

func (n *realNode) startKubelet() error {
	var err error
	if n.kubelet, err = newKubelet(n.dir, n.cgroup, n.kubeconfig()); err != nil {
		return err
	}
	if err := n.kubelet.start(); err != nil {
		return err
	}
	return n.kubelet.waitUntil(startLimit, func() error {
		_, err := n.kube.CoreV1().Nodes().Get(context.Background(), nodeName, metav1.GetOptions{})
		return err
	})
}

// kubectl runs kubectl.
func (n *realNode) kubectl(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, binary(localcluster), append([]string{"kubectl"}, args...)...)
	command.Env = append(os.Environ(), "LOCALCLUSTER_DIR="+n.clusterDir())
	command.Dir = root()
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %v: %w: %s", args, err, output)
	}
	return nil
}

// printLogs prints the ends of all logs.
func (n *realNode) printLogs(out io.Writer) {
	for _, pattern := range []string{
		filepath.Join(n.dir, "*.log"),
		filepath.Join(n.clusterDir(), "logs", "gpu-controller.log"),
		filepath.Join("/var/log/pods", "*nodeagent*", "*", "*.log"),
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			fmt.Fprintln(out, err)
		}
		for _, file := range files {
			fmt.Fprintf(out, "--- the end of %s:\n%s\n", file, tail(file))
		}
	}
}
