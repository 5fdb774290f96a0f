// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// Executor returns what runs a command in a container, over WebSocket, or over SPDY through
// API servers and proxies that don't take WebSocket.
func (c *Clients) Executor(pod *corev1.Pod, options *corev1.PodExecOptions) (remotecommand.Executor, error) {
	core, err := typedcorev1.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	address := core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(options, scheme.ParameterCodec).URL()
	spdy, err := remotecommand.NewSPDYExecutor(c.Config, "POST", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	webSocket, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", address.String())
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return remotecommand.NewFallbackExecutor(webSocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}
