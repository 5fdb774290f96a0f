// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	componentbaseconfig "k8s.io/component-base/config"
)

func TestTheLeaseWithoutElection(t *testing.T) {
	tests := map[string]struct {
		asked componentbaseconfig.LeaderElectionConfiguration
		want  string
	}{
		"none is named":             {componentbaseconfig.LeaderElectionConfiguration{}, "gpu-controller-system/gpu-scheduler"},
		"kube-scheduler's is named": {componentbaseconfig.LeaderElectionConfiguration{ResourceName: "kube-scheduler", ResourceNamespace: "kube-system"}, "gpu-controller-system/gpu-scheduler"},
		"one of its own":            {componentbaseconfig.LeaderElectionConfiguration{ResourceName: "gpu-scheduler-blue", ResourceNamespace: "gpus"}, "gpus/gpu-scheduler-blue"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config, err := leaseWithoutElection(&rest.Config{Host: "localhost"}, &test.asked, "me")
			if err != nil {
				t.Fatal(err)
			}
			if got := config.Lock.Describe(); got != test.want {
				t.Errorf("got the lease %s, want %s", got, test.want)
			}
			if _, err := leaderelection.NewLeaderElector(config); err != nil {
				t.Error(err)
			}
		})
	}
}
