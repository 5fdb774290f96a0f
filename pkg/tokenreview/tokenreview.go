// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tokenreview protects HTTP endpoints as Kubernetes' components protect theirs: the API server says whose the
// token of a request is, and whether they may send it. It links no client of whole API groups, as the node agent needs
// it, too.
package tokenreview

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// timeout bounds the two reviews of a request, and verdictFor is how long a verdict holds: both as in Kubernetes.
	timeout    = 10 * time.Second
	verdictFor = 10 * time.Second
	// maxVerdicts is how many verdicts are remembered, those that were used last.
	maxVerdicts = 1024
)

// Gate lets through what the API server allows. It is safe for concurrent use.
type Gate struct {
	api      rest.Interface
	verdicts *cache.LRUExpireCache
}

// New returns a Gate that asks the API server of a configuration.
func New(config *rest.Config, clock clock.Clock) (*Gate, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &authenticationv1.SchemeGroupVersion
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// A flood of forged tokens must not become one of requests to the API server.
	config.QPS, config.Burst = 20, 40
	api, err := rest.RESTClientFor(config)
	return &Gate{api: api, verdicts: cache.NewLRUExpireCacheWithClock(maxVerdicts, clock)}, err
}

// Protect returns a handler that passes on the requests of those who may send them, and answers others as Kubernetes
// does: 401 if it is not known who they are, 403 if they may not, 500 if the API server does not say.
func (g *Gate) Protect(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verdict := g.verdict(r)
		if verdict.status == http.StatusOK {
			handler.ServeHTTP(w, r)
			return
		}
		if verdict.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, cmp.Or(verdict.reason, http.StatusText(verdict.status)), verdict.status)
	})
}

// verdict is the status of the answer to a request, and why.
type verdict struct {
	status int
	reason string
}

func (g *Gate) verdict(r *http.Request) verdict {
	token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !isBearer || token == "" {
		return verdict{status: http.StatusUnauthorized}
	}
	asked := &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}
	key := sha256.Sum256([]byte(token + "\n" + asked.Verb + asked.Path))
	if known, found := g.verdicts.Get(key); found {
		return known.(verdict)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	found, err := g.review(ctx, token, asked)
	if err != nil { // no verdict to remember
		klog.FromContext(ctx).Error(err, "Nobody is admitted whose token is not known", "path", asked.Path)
		return found
	}
	g.verdicts.Add(key, found, verdictFor)
	return found
}

// review asks the API server whose a token is, and whether they may send a request.
func (g *Gate) review(ctx context.Context, token string, asked *authorizationv1.NonResourceAttributes) (verdict, error) {
	owner := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := g.api.Post().AbsPath("/apis/authentication.k8s.io/v1/tokenreviews").Body(owner).Do(ctx).Into(owner); err != nil {
		return verdict{status: http.StatusUnauthorized}, fmt.Errorf("asking the API server whose a token is: %w", err)
	}
	if !owner.Status.Authenticated {
		return verdict{status: http.StatusUnauthorized}, nil
	}
	user := &owner.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range maps.All(user.Extra) {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: asked, User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
	}}
	if err := g.api.Post().AbsPath("/apis/authorization.k8s.io/v1/subjectaccessreviews").Body(access).Do(ctx).Into(access); err != nil {
		return verdict{status: http.StatusInternalServerError}, fmt.Errorf("asking the API server what %s may do: %w", user.Username, err)
	}
	if !access.Status.Allowed || access.Status.Denied {
		return verdict{http.StatusForbidden, fmt.Sprintf("forbidden: User %q cannot %s path %q", user.Username, asked.Verb, asked.Path)}, nil
	}
	return verdict{status: http.StatusOK}, nil
}
