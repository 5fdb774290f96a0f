// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restconfig finds the API server the way kubectl does.
package restconfig

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Load returns the client configuration of a kubeconfig file; without one, that of KUBECONFIG, of ~/.kube/config or of
// the service account inside a cluster. The program's name becomes part of the user agent. As in the components of
// Kubernetes, responses are not compressed: within a cluster the network costs less than the CPU time, in the API
// server as well, which compresses each event of a watch by itself.
func Load(kubeconfig, program string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no connection to a cluster: %w (set --kubeconfig or run inside a cluster)", err)
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent() + "/" + program
	config.DisableCompression = true
	return config, nil
}
