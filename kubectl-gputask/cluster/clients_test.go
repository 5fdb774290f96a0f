// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
)

const twoContexts = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://gpus.example.com"}}]
users: [{name: u, user: {token: secret}}]
contexts:
- {name: lab, context: {cluster: c, user: u, namespace: vision}}
- {name: factory, context: {cluster: c, user: u}}
current-context: lab
`

func TestClientsKnowTheirContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(twoContexts), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ flag, context, namespace string }{
		"that of the kubeconfig":   {"", "lab", "vision"},
		"the one that a flag says": {"factory", "factory", "default"},
	} {
		flags := genericclioptions.NewConfigFlags(true)
		flags.KubeConfig, flags.Context = &path, &test.flag
		clients, err := Connect(flags)
		if err != nil {
			t.Fatal(err)
		}
		if clients.Context != test.context || clients.Namespace != test.namespace {
			t.Errorf("%s: context %q, namespace %q", name, clients.Context, clients.Namespace)
		}
	}
}
