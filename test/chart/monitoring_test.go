// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// workload is what matters here of a Deployment or a DaemonSet.
type workload struct {
	namespace string
	labels    labels.Set
	ports     []string
}

// workloadsOf returns the workloads among objects.
func workloadsOf(t *testing.T, objects []*unstructured.Unstructured) []workload {
	t.Helper()
	var list []workload
	for _, object := range objects {
		if object.GetKind() != "Deployment" && object.GetKind() != "DaemonSet" {
			continue
		}
		var template struct {
			Spec struct {
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &template); err != nil {
			t.Fatal(err)
		}
		one := workload{namespace: object.GetNamespace(), labels: template.Spec.Template.Labels}
		for _, port := range template.Spec.Template.Spec.Containers[0].Ports {
			one.ports = append(one.ports, port.Name)
		}
		list = append(list, one)
	}
	return list
}

// selected returns the workloads that an object selects in its namespace.
func selected(t *testing.T, object *unstructured.Unstructured, all []workload, path ...string) (list []workload) {
	t.Helper()
	chosen, found, err := unstructured.NestedMap(object.Object, path...)
	if err != nil || !found {
		t.Fatalf("%s %s selects nothing, error %v", object.GetKind(), object.GetName(), err)
	}
	var labelSelector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(chosen, &labelSelector); err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(&labelSelector)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.namespace == object.GetNamespace() && selector.Matches(one.labels) {
			list = append(list, one)
		}
	}
	return list
}

// behindService returns the workloads that a Service selects, by whose label the scheduler's monitor finds it.
func behindService(t *testing.T, service *unstructured.Unstructured, all []workload) (list []workload) {
	t.Helper()
	if service.GetLabels()["app.kubernetes.io/name"] != "gpu-scheduler" {
		t.Errorf("the Service %s has the labels %v", service.GetName(), service.GetLabels())
	}
	chosen, _, err := unstructured.NestedStringMap(service.Object, "spec", "selector")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.namespace == service.GetNamespace() && labels.SelectorFromSet(chosen).Matches(one.labels) {
			list = append(list, one)
		}
	}
	return list
}

// portsIn returns the values of all fields "port" in a list of an object.
func portsIn(t *testing.T, object *unstructured.Unstructured, path ...string) (ports []string) {
	t.Helper()
	entries, _, err := unstructured.NestedSlice(object.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if inner, found := entry.(map[string]any)["ports"].([]any); found {
			for _, port := range inner {
				ports = append(ports, port.(map[string]any)["port"].(string))
			}
			continue
		}
		ports = append(ports, entry.(map[string]any)["port"].(string))
	}
	return ports
}

// TestWhatIsScrapedAndAdmittedIsThere: the monitors and the policies of the network name Pods by labels and ports by
// names.
func TestWhatIsScrapedAndAdmittedIsThere(t *testing.T) {
	t.Parallel()
	objects, err := render(t, "gpu", everything())
	if err != nil {
		t.Fatal(err)
	}
	all, checked := workloadsOf(t, objects), 0
	for _, object := range objects {
		var targets []workload
		var ports []string
		switch object.GetKind() {
		case "PodMonitor":
			targets, ports = selected(t, object, all, "spec", "selector"), portsIn(t, object, "spec", "podMetricsEndpoints")
		case "NetworkPolicy":
			targets, ports = selected(t, object, all, "spec", "podSelector"), portsIn(t, object, "spec", "ingress")
		case "ServiceMonitor":
			targets, ports = behindService(t, find(t, objects, "Service", object.GetName()), all), portsIn(t, object, "spec", "endpoints")
		default:
			continue
		}
		checked++
		if len(targets) == 0 || len(ports) == 0 {
			t.Errorf("%s %s selects %v and ports %q", object.GetKind(), object.GetName(), targets, ports)
		}
		for _, target := range targets {
			if !slices.ContainsFunc(ports, func(port string) bool { return slices.Contains(target.ports, port) }) {
				t.Errorf("%s %s has the ports %q, and %v has %q", object.GetKind(), object.GetName(), ports, target.labels, target.ports)
			}
		}
	}
	const monitorsAndPolicies = 4 + 4
	if checked != monitorsAndPolicies {
		t.Errorf("there are %d monitors and policies, want %d", checked, monitorsAndPolicies)
	}
}

// TestOnlyWhatIsInstalledIsMonitored: the alert for a missing scheduler would fire for ever where there is none.
func TestOnlyWhatIsInstalledIsMonitored(t *testing.T) {
	t.Parallel()
	on := values{"podMonitor": values{"enabled": true}, "prometheusRule": values{"enabled": true}}
	tests := map[string]struct {
		values           values
		monitors, groups string
	}{
		"by default":       {values{}, "gpu-controller gpu-scheduler nodeagent", "gpu-controller gpu-scheduler nodeagent"},
		"GPUs over DRA":    {set(true, "dradriver", "enabled"), "dradriver gpu-controller gpu-scheduler nodeagent", "gpu-controller gpu-scheduler nodeagent dradriver"},
		"no scheduler":     {set(false, "scheduler", "enabled"), "gpu-controller nodeagent", "gpu-controller nodeagent"},
		"no agents":        {set(false, "nodeagent", "enabled"), "gpu-controller gpu-scheduler", "gpu-controller gpu-scheduler"},
		"no controller":    {set(false, "controller", "enabled"), "gpu-scheduler nodeagent", "gpu-scheduler nodeagent"},
		"no metrics of it": {set("0", "controller", "flags", "metrics-bind-address"), "gpu-scheduler nodeagent", "gpu-controller gpu-scheduler nodeagent"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.values["monitoring"] = on
			objects := mustRender(t, test.values)
			var monitors, groups []string
			for _, object := range objects {
				if strings.HasSuffix(object.GetKind(), "Monitor") {
					monitors = append(monitors, object.GetName())
				}
			}
			slices.Sort(monitors)
			list, _, err := unstructured.NestedSlice(find(t, objects, "PrometheusRule", "gpu-controller").Object, "spec", "groups")
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range list {
				groups = append(groups, group.(map[string]any)["name"].(string))
			}
			if got := strings.Join(monitors, " "); got != test.monitors {
				t.Errorf("monitors of %s, want %s", got, test.monitors)
			}
			if got := strings.Join(groups, " "); got != test.groups {
				t.Errorf("alerts of %s, want %s", got, test.groups)
			}
		})
	}
}
