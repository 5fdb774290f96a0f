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
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Tokens is the gate of a page in the cluster. The page watches the cluster once, with rights of its own, so a viewer
// is admitted only if the API server says that they might list all that the page shows. Whatever is changed is changed
// with the viewer's token.
//
// What the API server said about a token holds for a few seconds, and tokens that nobody has been admitted with lately
// are reviewed at a bounded rate: a page costs one review, and a flood of forged tokens none that the viewers would
// have to wait for. It is safe for concurrent use.
type Tokens struct {
	reviews kubernetes.Interface
	config  *rest.Config
	verdicts
	limits *limits
}

// NewTokens returns a gate that reviews tokens with one client, which nothing else should use, because it is busy while
// many reviews are, and connects viewers to the API server of config.
func NewTokens(reviews kubernetes.Interface, config *rest.Config, clock clock.Clock) *Tokens {
	return &Tokens{reviews: reviews, config: config, verdicts: newVerdicts(clock), limits: newLimits(clock)}
}

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

// Admit admits who may list all that the page shows. It fails with a BusyError if too many unknown tokens come from the
// sender's address.
func (t *Tokens) Admit(ctx context.Context, sender Sender) (*Viewer, error) {
	if sender.Token == "" {
		return nil, &RefusedError{Message: "Sign in with a token for the cluster, for example from `kubectl create token NAME`."}
	}
	return t.verdict(ctx, sender.Token, func(ctx context.Context, admittedLately bool) (*Viewer, error) {
		if !admittedLately && !t.limits.allow(sender.Address) {
			return nil, &BusyError{}
		}
		return t.review(ctx, sender.Token)
	})
}

// review asks the API server whose a token is, and whether they may list all that the page shows.
func (t *Tokens) review(ctx context.Context, token string) (*Viewer, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := t.reviews.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
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
			"You are signed in as %s, and may not list %s in all namespaces. This page shows the whole cluster: ask for the ClusterRole gputasks-cluster-view.",
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
			review, err := t.reviews.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
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
