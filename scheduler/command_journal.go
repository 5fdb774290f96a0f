// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"falldio.github.io/gpu-controller/scheduler/journal"
	"falldio.github.io/gpu-controller/scheduler/planner"
)

// journalShutdown is how long a request for the journal may go on when the scheduler ends.
const journalShutdown = 5 * time.Second

// serveJournal serves the journal of decisions until ctx ends, if there is one. app.Run makes the handler of the secure
// port itself, and nothing can be added to it. Therefore this is a port of its own, with everything else of the secure
// one: its address, its certificates, and who is let in: whoever may get the path, as with /metrics.
func serveJournal(ctx context.Context, config *schedulerconfig.CompletedConfig, shared *planner.Shared) error {
	learner := shared.Get()
	if learner == nil {
		return nil
	}
	recorder, port := learner.Journal()
	if recorder == nil || port == 0 {
		return nil
	}
	if config.SecureServing == nil {
		klog.FromContext(ctx).Info("The journal of decisions is not served, as there is no secure port")
		return nil
	}
	host, _, err := net.SplitHostPort(config.SecureServing.Listener.Addr().String())
	if err != nil {
		return fmt.Errorf("the address of the secure port: %w", err)
	}
	serving := *config.SecureServing
	if serving.Listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port))); err != nil {
		return fmt.Errorf("journal.port: %w", err)
	}
	handler := protectedJournal(recorder, config.Authentication.Authenticator, config.Authorization.Authorizer)
	if _, _, err := serving.Serve(handler, journalShutdown, ctx.Done()); err != nil {
		return fmt.Errorf("serving the journal: %w", err)
	}
	return nil
}

// protectedJournal lets only those in who are authenticated and may get the path, as kube-scheduler does with its own
// handlers.
func protectedJournal(served http.Handler, authn authenticator.Request, authz authorizer.UnconditionalAuthorizer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(journal.Path, served)
	info := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString(), GrouplessAPIPrefixes: sets.NewString()}
	handler := genericapifilters.WithAuthorization(mux, authz, scheme.Codecs)
	handler = genericapifilters.WithAuthentication(handler, authn, genericapifilters.Unauthorized(scheme.Codecs), nil, nil)
	handler = genericapifilters.WithRequestInfo(handler, info)
	handler = genericapifilters.WithCacheControl(handler)
	handler = genericfilters.WithHTTPLogging(handler)
	return genericfilters.WithPanicRecovery(handler, info)
}
