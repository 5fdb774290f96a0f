// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"strings"
	"testing"
)

func TestTheDriverIsLeftAloneWhileTheGPUOperatorWorksOnIt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		labels map[string]string
		want   string // part of the reason; empty if the driver may be used
	}{
		"nothing of the Operator": {map[string]string{"kubernetes.io/os": "linux"}, ""},
		"all is running": {map[string]string{
			"nvidia.com/gpu.deploy.driver": "true", "nvidia.com/gpu.deploy.dcgm": "false", "nvidia.com/gpu.deploy.container-toolkit": "pre-installed",
			"nvidia.com/gpu-driver-upgrade-state": "upgrade-done", "nvidia.com/mig.config.state": "success",
		}, ""},
		"the driver is unloaded":           {map[string]string{"nvidia.com/gpu.deploy.container-toolkit": "paused-for-driver-upgrade"}, "nvidia.com/gpu.deploy.container-toolkit=paused-for-driver-upgrade"},
		"a component with a value":         {map[string]string{"nvidia.com/gpu.deploy.dcgm": "own_paused-for-driver-upgrade"}, "nvidia.com/gpu.deploy.dcgm="},
		"its Pod is restarted":             {map[string]string{"nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"}, "nvidia.com/gpu-driver-upgrade-state=pod-restart-required"},
		"the node is still being drained":  {map[string]string{"nvidia.com/gpu-driver-upgrade-state": "drain-required"}, ""},
		"the upgrade has failed":           {map[string]string{"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}, ""},
		"GPUs are divided":                 {map[string]string{"nvidia.com/mig.config.state": "pending"}, "nvidia.com/mig.config.state=pending"},
		"the node is rebooted for that":    {map[string]string{"nvidia.com/mig.config.state": "rebooting"}, "nvidia.com/mig.config.state=rebooting"},
		"components make room for that":    {map[string]string{"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"}, "nvidia.com/gpu.deploy.device-plugin=paused-for-mig-change"},
		"dividing them has failed":         {map[string]string{"nvidia.com/mig.config.state": "failed"}, ""},
		"a label of somebody else is none": {map[string]string{"example.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Paused(test.labels)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
