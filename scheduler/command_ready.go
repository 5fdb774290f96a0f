// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"falldio.github.io/gpu-controller/scheduler/planner"
)

// readyPath is the path of kube-scheduler's readiness check.
const readyPath = "/readyz"

// reportUnready has the readiness check fail while this process leads but can't schedule Pods with GPUs yet, and say
// why. app.Run makes the checks itself, and none can be added to them; besides, they never say why they fail. But the
// authorizer is asked before them, and its errors are answered as they are.
func reportUnready(config *schedulerconfig.CompletedConfig, shared *planner.Shared) {
	if taker := shared.Get(); taker != nil && config.Authorization.Authorizer != nil {
		config.Authorization.Authorizer = readiness{config.Authorization.Authorizer, taker.Unready}
	}
}

// readiness refuses readiness checks while unready says why.
type readiness struct {
	authorizer.Authorizer
	unready func() string
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (r readiness) Authorize(ctx context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	if !request.IsResourceRequest() && request.GetPath() == readyPath {
		if why := r.unready(); why != "" {
			return authorizer.DecisionDeny, "", errors.New(why)
		}
	}
	return r.Authorizer.Authorize(ctx, request)
}
