// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

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
	"falldio.github.io/gpu-controller/test/programs"
)

const (
	// startLimit is how long the control plane, and then the kubelet, may take
	// to start on a busy machine.
	startLimit = 3 * time.Minute
	// PollEvery is how often a condition is checked.
	PollEvery = 50 * time.Millisecond
)

// Node is a node that really runs containers, with its control plane and clients that have all
// rights.
type Node struct {
	// Dir is the folder of all files of the run.
	Dir string
	// Cluster, Containerd and Kubelet are the node's programs.
	Cluster, Containerd, Kubelet *Program

	Config *rest.Config
	Kube   kubernetes.Interface
	Tasks  clientset.Interface

	cgroup string
}

// newNode returns a node that does not run yet. Its control plane gets further arguments of
// localcluster, among them at least one simulated node.
func newNode(dir, cgroup string, clusterArgs ...string) *Node {
	n := &Node{Dir: dir, cgroup: cgroup}
	args := []string{programs.Binary(localcluster), "up", "--dir=" + n.ClusterDir(), "--nodeagent=none", "--start-timeout=" + startLimit.String()}
	n.Cluster = NewProgram(dir, localcluster, append(args, clusterArgs...)...)
	return n
}

// ClusterDir is the directory of the control plane.
func (n *Node) ClusterDir() string { return filepath.Join(n.Dir, "cluster") }

// Kubeconfig is the path of a kubeconfig with all rights, which appears when the control plane
// is ready.
func (n *Node) Kubeconfig() string { return filepath.Join(n.ClusterDir(), "kubeconfig") }

// start returns when the kubelet has registered the node. It imports the archives of images.
func (n *Node) start(archives []string) error {
	if err := n.Cluster.Start(); err != nil {
		return err
	}
	// Meanwhile:
	if err := n.startContainerd(archives); err != nil {
		return err
	}
	err := n.Cluster.WaitUntil(startLimit, func() error {
		_, err := os.Stat(n.Kubeconfig())
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

func (n *Node) startContainerd(archives []string) error {
	var err error
	if n.Containerd, err = newContainerd(n.Dir); err != nil {
		return err
	}
	if err := n.Containerd.Start(); err != nil {
		return err
	}
	if err := n.WaitForContainerd(); err != nil {
		return err
	}
	for name, image := range map[string]string{"app": AppImage, "pause": PauseImage} {
		path := filepath.Join(n.Dir, name+".tar")
		if err := WriteImage(path, filepath.Join(n.Dir, appProgram), image); err != nil {
			return err
		}
		archives = append(archives, path)
	}
	for _, archive := range archives {
		if err := importImage(archive); err != nil {
			return err
		}
	}
	return nil
}

// WaitForContainerd waits until containerd, which has just been started, can be used.
func (n *Node) WaitForContainerd() error {
	return n.Containerd.WaitUntil(containerdLimit, containerdReady)
}

func (n *Node) connect() error {
	var err error
	if n.Config, err = clientcmd.BuildConfigFromFlags("", n.Kubeconfig()); err != nil {
		return err
	}
	n.Config.QPS = -1
	if n.Kube, err = kubernetes.NewForConfig(n.Config); err != nil {
		return err
	}
	n.Tasks, err = clientset.NewForConfig(n.Config)
	return err
}

func (n *Node) startKubelet() error {
	var err error
	if n.Kubelet, err = newKubelet(n.Dir, n.cgroup, n.Kubeconfig()); err != nil {
		return err
	}
	if err := n.Kubelet.Start(); err != nil {
		return err
	}
	return n.Kubelet.WaitUntil(startLimit, func() error {
		_, err := n.Kube.CoreV1().Nodes().Get(context.Background(), Name, metav1.GetOptions{})
		return err
	})
}

// Kubectl runs kubectl in the root of the repository.
func (n *Node) Kubectl(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, programs.Binary(localcluster), append([]string{"kubectl"}, args...)...)
	command.Env = append(os.Environ(), "LOCALCLUSTER_DIR="+n.ClusterDir())
	command.Dir = programs.Root()
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %v: %w: %s", args, err, output)
	}
	return nil
}

// PrintLogs prints the ends of all logs.
func (n *Node) PrintLogs(out io.Writer) {
	for _, pattern := range []string{
		filepath.Join(n.Dir, "*.log"),
		filepath.Join(n.ClusterDir(), "logs", "gpu-controller.log"),
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
