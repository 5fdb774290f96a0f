// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Tokens is the gate of a page in the cluster. The page watches the cluster once, with rights of its own, so each request is admitted only if
// the API server says that its sender might list all that the page shows. Whatever is changed is changed with the sender's token.
type Tokens struct {
	kube   kubernetes.Interface
	config *rest.Config
}

// NewTokens returns a gate that asks the API server with the page's own clients.
func NewTokens(own *cluster.Clients) *Tokens { return &Tokens{kube: own.Kube, config: own.Config} }

// viewed is all that the page shows, as the ClusterRole gputasks-cluster-view allows it.
func viewed() []authorizationv1.ResourceAttributes {
	attributes := make([]authorizationv1.ResourceAttributes, 0, 8)
	for _, one := range []struct{ group, resource string }{
		{"", "nodes"}, {"", "pods"}, {"", "namespaces"}, {v1.GroupName, "gputasks"}, {v1.GroupName, "moveplans"}, {v1.GroupName, "gpuqueues"},
		{"policy", "poddisruptionbudgets"}, {"scheduling.k8s.io", "priorityclasses"},
	} {
		attributes = append(attributes, authorizationv1.ResourceAttributes{Verb: "list", Group: one.group, Resource: one.resource})
	}
	return attributes
}

// Admit admits who may list all that the page shows.
func (t *Tokens) Admit(ctx context.Context, token string) (*Viewer, error) {
	if token == "" {
		return nil, &RefusedError{Message: "Sign in with a token of the cluster, for example of `kubectl create token NAME`."}
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := t.kube.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking the API server about a token: %w", err)
	}
	if !review.Status.Authenticated {
		return nil, &RefusedError{Message: "The API server does not accept this token; it may have expired."}
	}
	missing, err := t.missing(ctx, &review.Status.User)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, &RefusedError{Known: true, Message: fmt.Sprintf(
			"You are signed in as %s, who may not list %s in all namespaces. This page shows the whole cluster: the ClusterRole gputasks-cluster-view has the rights that it takes.",
			review.Status.User.Username, strings.Join(missing, ", "))}
	}
	clients, err := cluster.WithToken(t.config, token)
	if err != nil {
		return nil, err
	}
	return &Viewer{Name: review.Status.User.Username, Clients: clients}, nil
}

// missing returns what a user may not list.
func (t *Tokens) missing(ctx context.Context, user *authenticationv1.UserInfo) ([]string, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range maps.All(user.Extra) {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	wanted := viewed()
	allowed := make([]bool, len(wanted))
	group, ctx := errgroup.WithContext(ctx)
	for i := range wanted {
		group.Go(func() error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: &wanted[i], User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
			}}
			review, err := t.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("asking the API server what a user may do: %w", err)
			}
			allowed[i] = review.Status.Allowed && !review.Status.Denied
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var missing []string
	for i := range wanted {
		if !allowed[i] {
			missing = append(missing, wanted[i].Resource)
		}
	}
	return missing, nil
}
