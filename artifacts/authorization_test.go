// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
)

// test/realnode tests this configuration on a real API server, with an agent. This tests its
// conditions with the API server's evaluator.

// readsMatcher returns the conditions of the webhook that refuses requests.
func readsMatcher(t *testing.T) *authorizationcel.CELMatcher {
	t.Helper()
	text, err := Files.ReadFile("authorization/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config, err := load.LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	webhook := config.Authorizers[0].Webhook
	if webhook == nil || webhook.FailurePolicy != "Deny" {
		t.Fatalf("the first authorizer refuses nothing: %+v", config.Authorizers[0])
	}
	matcher := &authorizationcel.CELMatcher{UsesFieldSelector: true}
	for _, condition := range webhook.MatchConditions {
		compiled, err := authorizationcel.NewDefaultCompiler().CompileCELExpression(&authorizationcel.SubjectAccessReviewMatchCondition{Expression: condition.Expression})
		if err != nil {
			t.Fatal(err)
		}
		matcher.CompilationResults = append(matcher.CompilationResults, compiled)
	}
	return matcher
}

func TestAnAgentReadsOnlyWhatIsOfItsNode(t *testing.T) {
	t.Parallel()
	const agent = "system:serviceaccount:nodeagent-system:nodeagent"
	where := func(key string, values ...string) []metav1.FieldSelectorRequirement {
		return []metav1.FieldSelectorRequirement{{Key: key, Operator: metav1.FieldSelectorOpIn, Values: values}}
	}
	not := func(requirements []metav1.FieldSelectorRequirement) []metav1.FieldSelectorRequirement {
		requirements[0].Operator = metav1.FieldSelectorOpNotIn
		return requirements
	}
	tests := map[string]struct {
		user, verb, resource string   // with "/" and a name, if it has one
		nodes                []string // in the token
		selector             []metav1.FieldSelectorRequirement
		refused              bool
	}{
		"its Pods":                               {agent, "list", "pods", []string{"a"}, where("spec.nodeName", "a"), false},
		"watching its Pods":                      {agent, "watch", "pods", []string{"a"}, where("spec.nodeName", "a"), false},
		"its Pods of one phase":                  {agent, "list", "pods", []string{"a"}, append(where("status.phase", "Running"), where("spec.nodeName", "a")...), false},
		"its Node":                               {agent, "list", "nodes", []string{"a"}, where("metadata.name", "a"), false},
		"changing its Node":                      {agent, "patch", "nodes", []string{"a"}, nil, false},
		"writing an Event":                       {agent, "create", "events", []string{"a"}, nil, false},
		"all Pods":                               {agent, "list", "pods", []string{"a"}, nil, true},
		"watching all Pods":                      {agent, "watch", "pods", []string{"a"}, nil, true},
		"one Pod, of which it can't be said":     {agent, "get", "pods/x", []string{"a"}, nil, true},
		"a Pod with the name of its node":        {agent, "get", "pods/a", []string{"a"}, nil, true},
		"its Node by name":                       {agent, "get", "nodes/a", []string{"a"}, nil, false},
		"another Node by name":                   {agent, "get", "nodes/b", []string{"a"}, nil, true},
		"all Nodes under the name of its own":    {agent, "list", "nodes/a", []string{"a"}, nil, true},
		"the Pods of another node":               {agent, "list", "pods", []string{"a"}, where("spec.nodeName", "b"), true},
		"the Pods of all other nodes":            {agent, "list", "pods", []string{"a"}, not(where("spec.nodeName", "a")), true},
		"the Pods of several nodes":              {agent, "list", "pods", []string{"a"}, where("spec.nodeName", "a", "b"), true},
		"Pods by another field":                  {agent, "list", "pods", []string{"a"}, where("metadata.name", "a"), true},
		"all Nodes":                              {agent, "list", "nodes", []string{"a"}, nil, true},
		"another Node":                           {agent, "list", "nodes", []string{"a"}, where("metadata.name", "b"), true},
		"a token that is bound to no node":       {agent, "list", "pods", nil, where("spec.nodeName", "a"), true},
		"a token with an empty list of nodes":    {agent, "list", "pods", []string{}, where("spec.nodeName"), true},
		"somebody else, who may read everything": {"admin", "list", "pods", nil, nil, false},
	}
	matcher := readsMatcher(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resource, object, _ := strings.Cut(test.resource, "/")
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               test.user,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: test.verb, Resource: resource, Name: object, Version: "v1"},
			}}
			if test.nodes != nil {
				review.Spec.Extra = map[string]authorizationv1.ExtraValue{"authentication.kubernetes.io/node-name": test.nodes}
			}
			if test.selector != nil {
				review.Spec.ResourceAttributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: test.selector}
			}
			// An error refuses, too, but says nothing about the condition.
			refused, err := matcher.Eval(t.Context(), review)
			if err != nil || refused != test.refused {
				t.Errorf("refused: %v, error %v, want %v", refused, err, test.refused)
			}
		})
	}
	t.Run("a path that is no resource", func(t *testing.T) {
		t.Parallel()
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: agent, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/version"},
		}}
		if refused, err := matcher.Eval(t.Context(), review); refused || err != nil {
			t.Errorf("refused: %v, error %v", refused, err)
		}
	})
}
