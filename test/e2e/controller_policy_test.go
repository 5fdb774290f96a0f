// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// This covers what the controller may do with Nodes. All its requests are dry runs.
func TestTheControllerMayChangeOneAnnotationAndOneTaintOfNodes(t *testing.T) {
	t.Parallel()
	client, s := controllerClient(t), newSuite(t)
	reserved, both := s.addNode("reserved", 0).Name, s.addNode("both", 0).Name
	s.patchNode(reserved, `{"spec": {"taints": [`+reservedJSON+`]}}`)
	s.patchNode(both, `{"spec": {"taints": [`+reservedJSON+`, `+unhealthyJSON+`]}}`)
	tests := map[string]struct {
		node    string
		patch   string
		refusal string // part of the error; empty if it is allowed
	}{
		"the reservations":             {"h100-0", `{"metadata": {"annotations": {"falldio.com/reservations": "[]"}}}`, ""},
		"taking the reservations off":  {"h100-0", `{"metadata": {"annotations": {"falldio.com/reservations": null}}}`, ""},
		"another annotation":           {"h100-0", `{"metadata": {"annotations": {"x": "y"}}}`, "changes no annotation of a Node but falldio.com/reservations"},
		"taking the inventory away":    {"h100-0", `{"metadata": {"annotations": {"falldio.com/gpu-inventory": null}}}`, "changes no annotation of a Node but falldio.com/reservations"},
		"a label":                      {"h100-0", `{"metadata": {"labels": {"falldio.com/gpu": "x"}}}`, "changes nothing of a Node but"},
		"a finalizer":                  {"h100-0", `{"metadata": {"finalizers": ["falldio.com/x"]}}`, "changes nothing of a Node but"},
		"cordoning":                    {"h100-0", `{"spec": {"unschedulable": true}}`, "changes nothing of a Node but"},
		"cordoning, and its taint":     {"h100-0", `{"spec": {"unschedulable": true, "taints": [` + unhealthyJSON + `]}}`, "changes nothing of a Node but"},
		"its provider":                 {"h100-0", `{"spec": {"providerID": "x://y"}}`, "changes nothing of a Node but"},
		"its taint":                    {"h100-0", `{"spec": {"taints": [` + unhealthyJSON + `]}}`, ""},
		"another taint":                {"h100-0", `{"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}`, changesNoTaint},
		"its taint and another one":    {"h100-0", `{"spec": {"taints": [` + unhealthyJSON + `, {"key": "x", "effect": "NoExecute"}]}}`, changesNoTaint},
		"its taint beside another one": {reserved, `{"spec": {"taints": [` + reservedJSON + `, ` + unhealthyJSON + `]}}`, ""},
		"its taint for another one":    {reserved, `{"spec": {"taints": [` + unhealthyJSON + `]}}`, changesNoTaint},
		"taking another taint off":     {reserved, `{"spec": {"taints": null}}`, changesNoTaint},
		"another effect of another taint": {reserved, `{"spec": {"taints": [{"key": "team", "value": "vision", "effect": "NoExecute"}]}}`,
			changesNoTaint},
		"another effect of its taint": {both, `{"spec": {"taints": [` + reservedJSON + `, {"key": "falldio.com/gpu-unhealthy", "value": "Degraded", "effect": "NoSchedule"}]}}`, ""},
		"taking its taint off":        {both, `{"spec": {"taints": [` + reservedJSON + `]}}`, ""},
		"taking all taints off":       {both, `{"spec": {"taints": null}}`, changesNoTaint},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := client.CoreV1().Nodes().Patch(t.Context(), test.node, types.MergePatchType, []byte(test.patch), dryRun())
			checkRefusal(t, err, test.refusal)
		})
	}
}

const (
	reservedJSON   = `{"key": "team", "value": "vision", "effect": "NoSchedule"}`
	unhealthyJSON  = `{"key": "falldio.com/gpu-unhealthy", "value": "Unhealthy", "effect": "NoExecute"}`
	changesNoTaint = "changes no taint of a Node but falldio.com/gpu-unhealthy"
)

// controllerClient returns a client with the rights of gpu-controller.
func controllerClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", shared.controllerKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
