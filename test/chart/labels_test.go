// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAllObjectsHaveTheCommonLabels(t *testing.T) {
	t.Parallel()
	common := map[string]string{
		"helm.sh/chart": "gpu-controller-0.0.0", "app.kubernetes.io/instance": release, "app.kubernetes.io/version": "latest",
		"app.kubernetes.io/part-of": "gpu-controller", "app.kubernetes.io/managed-by": "Helm",
	}
	for _, object := range mustRender(t, everything()) {
		labels := object.GetLabels()
		for name, want := range common {
			if labels[name] != want {
				t.Errorf("%s %s: the label %s is %q, want %q", object.GetKind(), object.GetName(), name, labels[name], want)
			}
		}
		if labels["app.kubernetes.io/name"] == "" {
			t.Errorf("%s %s has no label app.kubernetes.io/name", object.GetKind(), object.GetName())
		}
		switch object.GetKind() {
		case "Deployment", "DaemonSet":
			ofPods, _, err := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "labels")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"app.kubernetes.io/name", "app.kubernetes.io/component", "app.kubernetes.io/instance"} {
				if ofPods[name] == "" || ofPods[name] != labels[name] {
					t.Errorf("%s %s: the label %s is %q, and that of its Pods %q", object.GetKind(), object.GetName(), name, labels[name], ofPods[name])
				}
			}
			if chart, found := ofPods["helm.sh/chart"]; found {
				t.Errorf("%s %s: another version of the chart restarts its Pods: they have the label helm.sh/chart=%s", object.GetKind(), object.GetName(), chart)
			}
		}
	}
}

// everything are values with which the chart installs all that it can.
func everything() values {
	on := values{"enabled": true}
	return values{
		"dashboard": on, "dradriver": on, "kueue": on, "priorities": on, "gpuAccess": on, "flowControl": on,
		"networkPolicies": values{"enabled": true, "apiServers": []any{"192.0.2.0/28"}},
		"schedulerNames":  values{"default": "gpu-scheduler"}, "clusterView": values{"groups": []any{"gpu-users"}},
		"grafana": values{"dashboards": on}, "monitoring": values{"podMonitor": on, "prometheusRule": on},
	}
}
