// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

func TestOnlyWhoKnowsTheSecretIsAdmitted(t *testing.T) {
	t.Parallel()
	token, viewer := NewToken(), &Viewer{Name: "ann"}
	owner := NewOwner(viewer, token)
	if len(token) < MinTokenLength || token == NewToken() {
		t.Errorf("the secret %q can be guessed", token)
	}
	if got, err := owner.Admit(t.Context(), Sender{Token: token}); err != nil || got != viewer {
		t.Errorf("admitted %v, error %v", got, err)
	}
	for _, wrong := range []string{"", "x", token[1:], token + "x", strings.ToLower(token)} {
		var refusal *RefusedError
		if got, err := owner.Admit(t.Context(), Sender{Token: wrong}); got != nil || !errors.As(err, &refusal) || refusal.Known {
			t.Errorf("%q: admitted %v, error %v", wrong, got, err)
		}
	}
}

// apiServer answers reviews: the tokens "good" and "poor" are those of users, of whom only the first may list
// everything.
func apiServer(missing ...string) *kubefake.Clientset {
	kube := kubefake.NewClientset()
	kube.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		if review.Spec.Token == "good" || review.Spec.Token == "poor" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
				Username: review.Spec.Token, Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"scope": {"all"}},
			}}
		}
		return true, review, nil
	})
	kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		spec := &review.Spec
		whole := spec.ResourceAttributes.Verb == "list" && spec.ResourceAttributes.Namespace == "" && slices.Equal(spec.Groups, []string{"team"}) && len(spec.Extra["scope"]) == 1
		review.Status.Allowed = whole && (spec.User == "good" || !slices.Contains(missing, spec.ResourceAttributes.Resource))
		return true, review, nil
	})
	return kube
}

func TestATokenOfTheClusterIsAdmittedWithTheRightsThatItHas(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		token   string
		refused string
		known   bool
	}{
		"who may list everything":    {token: "good"},
		"who brings no token":        {refused: "Sign in with a token"},
		"who brings a wrong token":   {token: "forged", refused: "does not accept this token"},
		"who may not list two kinds": {token: "poor", refused: "You are signed in as poor, and may not list pods, moveplans in all namespaces.", known: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := &rest.Config{Host: "https://example.com", BearerToken: "own secret"}
			viewer, err := NewTokens(apiServer("pods", "moveplans"), config, clock.RealClock{}).Admit(t.Context(), Sender{Token: test.token})
			if test.refused == "" {
				if err != nil || viewer.Name != test.token || viewer.Clients.Config.BearerToken != test.token {
					t.Errorf("viewer %+v, error %v", viewer, err)
				}
				return
			}
			var refusal *RefusedError
			if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, test.refused) || refusal.Known != test.known || viewer != nil {
				t.Errorf("viewer %v, error %v", viewer, err)
			}
		})
	}
}

func TestAnAPIServerThatDoesNotAnswerAdmitsNobody(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"tokenreviews", "subjectaccessreviews"} {
		kube := apiServer()
		kube.PrependReactor("create", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("it is down") })
		viewer, err := NewTokens(kube, &rest.Config{}, clock.RealClock{}).Admit(context.WithoutCancel(t.Context()), Sender{Token: "good"})
		var refusal *RefusedError
		if viewer != nil || err == nil || errors.As(err, &refusal) || !strings.Contains(err.Error(), "it is down") {
			t.Errorf("%s: viewer %v, error %v", resource, viewer, err)
		}
	}
}
