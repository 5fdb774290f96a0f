// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"falldio.github.io/gpu-controller/artifacts"
)

// testAuthorization runs the API server with artifacts/authorization, and reads as the agent of a node.
func (r *release) testAuthorization(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"config.yaml", "nodeagent-reads.kubeconfig"} {
		text, err := artifacts.Files.ReadFile("authorization/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("/etc/kubernetes/"), []byte(dir+"/"))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := r.start(t, "--controller=none", "--scheduler=none", "--nodeagent=none", "--nodes=name=n,model=h100-80gb-hbm3,count=2,gpus=1",
		"--apiserver-arg=--authorization-config="+filepath.Join(dir, "config.yaml"))
	config, err := c.Config()
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:nodeagent-system:nodeagent",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {"n-0"}},
	}
	agent, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for selector, may := range map[string]bool{
		"spec.nodeName=n-0":                      true,
		"spec.nodeName=n-0,status.phase=Running": true,
		"spec.nodeName=n-1":                      false,
		"spec.nodeName!=n-0":                     false,
		"status.phase=Running":                   false,
		"":                                       false,
	} {
		_, err := agent.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if (err == nil) != may {
			t.Errorf("the agent of n-0 lists the Pods with %q: error %v, want allowed: %v", selector, err, may)
		}
	}
	for selector, may := range map[string]bool{"metadata.name=n-0": true, "metadata.name=n-1": false, "": false} {
		_, err := agent.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if (err == nil) != may {
			t.Errorf("the agent of n-0 lists the Nodes with %q: error %v, want allowed: %v", selector, err, may)
		}
	}
}
