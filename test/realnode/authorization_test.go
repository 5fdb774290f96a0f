// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"falldio.github.io/gpu-controller/artifacts"
	"falldio.github.io/gpu-controller/test/node"
)

// The folder of artifacts for the API server's authorization, and what it has.
const (
	authorizationFolder = "authorization"
	authorizationFile   = "config.yaml"
	nowhereFile         = "nodeagent-reads.kubeconfig"
	// installedFolder is where the shipped files expect each other.
	installedFolder = "/etc/kubernetes"
)

// authorizationConfig is the configuration that the API server runs with: agents read what is
// of their node. All other tests show that the agent needs no more.
func authorizationConfig(dir string) string { return filepath.Join(dir, authorizationFile) }

// writeAuthorizationConfig writes it as it is shipped, except for the folder.
func writeAuthorizationConfig(dir string) error {
	for _, name := range []string{authorizationFile, nowhereFile} {
		text, err := artifacts.Files.ReadFile(authorizationFolder + "/" + name)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte(installedFolder+"/"), []byte(dir+"/"))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TestTheAgentsTokenReadsOnlyWhatIsOfItsNode uses the agent's token for what a thief of it would
// like to know. The API server compares it with the requests' field selectors.
func TestTheAgentsTokenReadsOnlyWhatIsOfItsNode(t *testing.T) {
	s := newScene(t)
	config, err := clientcmd.BuildConfigFromFlags("", s.agentKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	agent := client.CoreV1()
	pods := func(selector string) error {
		_, err := agent.Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		return err
	}
	watched := func(selector string) error {
		watch, err := agent.Pods(metav1.NamespaceAll).Watch(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err == nil {
			watch.Stop()
		}
		return err
	}
	nodes := func(selector string) error {
		_, err := agent.Nodes().List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		return err
	}
	tests := map[string]struct {
		read     func(string) error
		selector string
		may      bool
	}{
		"the Pods on its node":          {pods, "spec.nodeName=" + node.Name, true},
		"watching the Pods on its node": {watched, "spec.nodeName=" + node.Name, true},
		"its Node":                      {nodes, "metadata.name=" + node.Name, true},
		"all Pods":                      {pods, "", false},
		"watching all Pods":             {watched, "", false},
		"the Pods on another node":      {pods, "spec.nodeName=other-0", false},
		"the Pods on all other nodes":   {pods, "spec.nodeName!=" + node.Name, false},
		"Pods that have no node":        {pods, "spec.nodeName=", false},
		"Pods by the name of its node":  {pods, "metadata.name=" + node.Name, false},
		"all Nodes":                     {nodes, "", false},
		"another Node":                  {nodes, "metadata.name=other-0", false},
	}
	for what, test := range tests {
		if err := test.read(test.selector); (err == nil) != test.may {
			t.Errorf("%s: error %v, allowed should be %v", what, err, test.may)
		}
	}
}
