// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestRequestsOfOurProgramsHaveTheirPriorityLevels installs artifacts/flowcontrol, and asks the API server which
// FlowSchema requests of our accounts and of others have, and a tenant's.
func TestRequestsOfOurProgramsHaveTheirPriorityLevels(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	if output, err := s.cluster.kubectl(t.Context(), "apply", "-k", "artifacts/flowcontrol"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	const (
		controller = "gpu-controller-system:gpu-controller"
		scheduler  = "gpu-controller-system:gpu-scheduler"
		agent      = "nodeagent-system:nodeagent"
		driver     = "nodeagent-system:dradriver"
		leases     = "/apis/coordination.k8s.io/v1/namespaces/gpu-controller-system/leases/"
	)
	tests := map[string]struct {
		account, path, want string
	}{
		"gpu-controller reads Pods":                {controller, "/api/v1/pods?limit=1", "gpu-control-plane"},
		"gpu-controller looks for APIs":            {controller, "/apis", "gpu-control-plane"},
		"gpu-controller renews its lease":          {controller, leases + "gpu-controller", "gpu-leader-election"},
		"gpu-scheduler reads Nodes":                {scheduler, "/api/v1/nodes?limit=1", "gpu-control-plane"},
		"gpu-scheduler renews its lease":           {scheduler, leases + "gpu-scheduler", "gpu-leader-election"},
		"an agent reads its Pods":                  {agent, "/api/v1/pods?limit=1", "gpu-nodes"},
		"an agent asks for a lease":                {agent, leases + "gpu-controller", "gpu-nodes"},
		"a driver reads a claim":                   {driver, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/x", "gpu-nodes"},
		"a tenant reads Pods":                      {s.namespace + ":default", "/api/v1/namespaces/" + s.namespace + "/pods", "service-accounts"},
		"a tenant's account with the same name":    {s.namespace + ":gpu-controller", "/api/v1/pods?limit=1", "service-accounts"},
		"a tenant asks for the controller's lease": {s.namespace + ":default", leases + "gpu-controller", "service-accounts"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.eventually(test.want+" has the request", func() (bool, string) {
				schema, err := s.cluster.kube.FlowcontrolV1().FlowSchemas().Get(t.Context(), test.want, metav1.GetOptions{})
				if err != nil {
					return false, err.Error()
				}
				got := s.flowSchemaOf(t, "system:serviceaccount:"+test.account, test.path)
				return got == string(schema.UID), fmt.Sprintf("it is in %s, want %s (%s)", got, schema.Name, schema.UID)
			})
		})
	}
	for _, name := range []string{"gpu-leader-election", "gpu-control-plane", "gpu-nodes"} {
		schema, err := s.cluster.kube.FlowcontrolV1().FlowSchemas().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range schema.Status.Conditions {
			if condition.Type == flowcontrolv1.FlowSchemaConditionDangling && condition.Status == flowcontrolv1.ConditionTrue {
				t.Errorf("%s has no priority level: %s", name, condition.Message)
			}
		}
	}
}

// flowSchemaOf returns the UID of the FlowSchema of a user's request. The API server says it also of those that it
// refuses.
func (s *suite) flowSchemaOf(t *testing.T, user, path string) string {
	t.Helper()
	config := rest.CopyConfig(s.cluster.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // nothing was written
	return answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
}

// TestTheNetworkPoliciesAreAccepted: nothing enforces them in a local cluster.
func TestTheNetworkPoliciesAreAccepted(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	if output, err := s.cluster.kubectl(t.Context(), "apply", "-k", "artifacts/networkpolicies"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for namespace, want := range map[string]int{"gpu-controller-system": 1, "nodeagent-system": 2} {
		list, err := s.cluster.kube.NetworkingV1().NetworkPolicies(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != want {
			t.Errorf("%s has %d policies, want %d, error %v", namespace, len(list.Items), want, err)
		}
	}
}
