// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// This covers what the controller may do with Nodes. All requests are dry runs.
func TestTheControllerMayChangeOneAnnotationOfNodes(t *testing.T) {
	t.Parallel()
	config, err := clientcmd.BuildConfigFromFlags("", shared.controllerKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		patch   string
		refusal string // part of the error; empty if it is allowed
	}{
		"the reservations":            {`{"metadata": {"annotations": {"falldio.com/reservations": "[]"}}}`, ""},
		"taking the reservations off": {`{"metadata": {"annotations": {"falldio.com/reservations": null}}}`, ""},
		"another annotation":          {`{"metadata": {"annotations": {"x": "y"}}}`, "changes no annotation of a Node but falldio.com/reservations"},
		"taking the inventory away":   {`{"metadata": {"annotations": {"falldio.com/gpu-inventory": null}}}`, "changes no annotation of a Node but falldio.com/reservations"},
		"a label":                     {`{"metadata": {"labels": {"falldio.com/gpu": "x"}}}`, "changes nothing of a Node but"},
		"a taint":                     {`{"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}`, "changes nothing of a Node but"},
		"cordoning":                   {`{"spec": {"unschedulable": true}}`, "changes nothing of a Node but"},
		"a finalizer":                 {`{"metadata": {"finalizers": ["falldio.com/x"]}}`, "changes nothing of a Node but"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := client.CoreV1().Nodes().Patch(t.Context(), "h100-0", types.MergePatchType, []byte(test.patch), dryRun())
			checkRefusal(t, err, test.refusal)
		})
	}
}
