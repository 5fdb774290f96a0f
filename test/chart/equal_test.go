// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/test/programs"
)

func TestTheChartInstallsWhatTheKustomizationsInstall(t *testing.T) {
	t.Parallel()
	on := values{"enabled": true}
	tests := map[string]struct {
		kustomizations []string
		values         values
	}{
		"what everybody needs": {[]string{"artifacts"}, values{}},
		"the page":             {[]string{"artifacts", "artifacts/dashboard"}, values{"dashboard": on}},
		"GPUs over DRA":        {[]string{"artifacts", "artifacts/dradriver"}, values{"dradriver": on}},
		"Kueue":                {[]string{"artifacts", "artifacts/kueue"}, values{"kueue": on}},
		"guarded access":       {[]string{"artifacts", "artifacts/gpuaccess"}, values{"gpuAccess": on}},
		"limits of priorities": {[]string{"artifacts", "artifacts/priorities"}, values{"priorities": on}},
		"a scheduler for Pods that name none": {
			[]string{"artifacts", "artifacts/scheduler-name"}, values{"schedulerNames": values{"default": "gpu-scheduler"}},
		},
		"policies of the network":  {[]string{"artifacts", "artifacts/networkpolicies"}, values{"networkPolicies": on}},
		"shares of the API server": {[]string{"artifacts", "artifacts/flowcontrol"}, values{"flowControl": on}},
		"Grafana's boards":         {[]string{"artifacts", "artifacts/grafana"}, values{"grafana": values{"dashboards": on}}},
		"everything": {
			[]string{"artifacts", "artifacts/dashboard", "artifacts/dradriver", "artifacts/kueue", "artifacts/priorities", "artifacts/monitoring"},
			values{"dashboard": on, "dradriver": on, "kueue": on, "priorities": on, "monitoring": values{"podMonitor": on, "prometheusRule": on}},
		},
		"all but the processes": {[]string{"artifacts/base"}, values{
			"controller": off(), "scheduler": off(), "nodeagent": off(), "withRights": true,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []*unstructured.Unstructured
			for _, kustomization := range append(test.kustomizations, "artifacts/numbers") {
				want = append(want, kustomize(t, kustomization)...)
			}
			if _, partial := test.values["withRights"]; partial {
				delete(test.values, "withRights")
				want = slices.DeleteFunc(want, ofAProcess)
			}
			expected, got := canonical(t, want), canonical(t, mustRender(t, test.values))
			for _, exception := range exceptions() {
				delete(expected, exception)
			}
			for name := range got {
				if _, known := expected[name]; !known {
					t.Errorf("the chart installs %s, the kustomizations do not", name)
				}
			}
			for name, object := range expected {
				if diff := gocmp.Diff(object, got[name]); diff != "" {
					t.Errorf("%s (-kustomize +Helm):\n%s", name, diff)
				}
			}
		})
	}
}

// TestTheChartInstallsWhatOverlaysInstall is about what is left of the above by a kustomization of the user's own.
func TestTheChartInstallsWhatOverlaysInstall(t *testing.T) {
	t.Parallel()
	on := values{"enabled": true}
	tests := map[string]struct {
		overlay   string
		namespace string
		values    values
	}{
		"metrics for those who may read them": {
			"resources: [ROOT/artifacts, ROOT/artifacts/dradriver, ROOT/artifacts/numbers]\ncomponents: [ROOT/artifacts/secure-metrics]\n",
			namespace, values{"metrics": values{"secure": true}, "dradriver": on},
		},
		"one namespace": {
			"namespace: team\nresources: [ROOT/artifacts/namespaced]\n",
			"team", values{"namespaced": true, "dashboard": on, "dradriver": on, "kueue": on, "priorities": on, "gpuAccess": on, "clusterView": values{"groups": []string{"all"}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chosen, err := render(t, test.namespace, test.values)
			if err != nil {
				t.Fatal(err)
			}
			expected, got := canonical(t, overlay(t, test.overlay)), canonical(t, chosen)
			for _, exception := range exceptions() {
				delete(expected, exception)
			}
			for name, object := range expected {
				resolveNamespace(t, object, test.namespace)
				expected[name] = object
			}
			if diff := gocmp.Diff(expected, got); diff != "" {
				t.Errorf("(-kustomize +Helm):\n%s", diff)
			}
		})
	}
}

// overlay returns what a kustomization installs that refers to the root of the repository as ROOT.
func overlay(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	folder := t.TempDir()
	root, err := filepath.Abs(programs.Root())
	if err != nil {
		t.Fatal(err)
	}
	if root, err = filepath.Rel(folder, root); err != nil { // kustomize takes no other paths
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(strings.ReplaceAll(text, "ROOT", root)), 0o600); err != nil {
		t.Fatal(err)
	}
	return kustomize(t, folder)
}

// resolveNamespace replaces the variable with the namespace of the Pod, which Helm knows, in a workload's arguments.
func resolveNamespace(t *testing.T, object map[string]any, namespace string) {
	t.Helper()
	workload := &unstructured.Unstructured{Object: object}
	containers, found, err := unstructured.NestedSlice(object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return
	}
	container := containers[0].(map[string]any)
	for i, arg := range container["args"].([]any) {
		container["args"].([]any)[i] = strings.ReplaceAll(arg.(string), "$(POD_NAMESPACE)", namespace)
	}
	container["env"] = slices.DeleteFunc(container["env"].([]any), func(variable any) bool { return variable.(map[string]any)["name"] == "POD_NAMESPACE" })
	if err := unstructured.SetNestedSlice(object, containers, "spec", "template", "spec", "containers"); err != nil {
		t.Fatal(err)
	}
	sortPod(t, workload)
}

func off() values { return values{"enabled": false} }

// ofAProcess reports whether an object of artifacts/base are rights of a process, which the chart
// leaves out with the process.
func ofAProcess(object *unstructured.Unstructured) bool {
	for _, process := range []string{"gpu-controller", "gpu-scheduler", "nodeagent"} {
		if object.GetKind() != "Namespace" && object.GetName() != "nodeagent-metrics" &&
			(object.GetName() == process || strings.HasPrefix(object.GetName(), process+"-")) {
			return true
		}
	}
	return false
}

// exceptions are the objects that only the kustomizations have: the namespace of the release is Helm's
// business, and the agents that observe share the ConfigMap of the others.
func exceptions() []string {
	return []string{"Namespace /gpu-controller-system", "ConfigMap nodeagent-system/nodeagent-probe-observe"}
}

// kustomize returns what a kustomization installs.
func kustomize(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(programs.Root(), folder)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(text))
}

// canonical returns objects by kind, namespace and name, without what the two ways to install write
// differently and means the same: the labels that all objects of a release have; the hash in the names of
// ConfigMaps, for which the chart has an annotation with a checksum; the order of arguments, variables, volumes
// and mounts; comments in files; and the annotation that makes Helm keep an object.
func canonical(t *testing.T, objects []*unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, object := range objects {
		object = object.DeepCopy()
		withoutAnnotations(object.Object, "metadata")
		withoutCommonLabels(object.Object, "metadata")
		switch object.GetKind() {
		case "ConfigMap":
			object.SetName(withoutHash(object.GetName()))
			parseFiles(t, object)
		case "Deployment", "DaemonSet":
			withoutAnnotations(object.Object, "spec", "template", "metadata")
			withoutCommonLabels(object.Object, "spec", "template", "metadata")
			sortPod(t, object)
		}
		name := fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
		if before, twice := found[name]; twice && !gocmp.Equal(before, object.Object) {
			t.Errorf("%s is there twice, and differs", name)
		}
		found[name] = object.Object
	}
	return found
}

func withoutAnnotations(object map[string]any, path ...string) {
	without(object, append(path, "annotations"), func(name string) bool {
		return name == "helm.sh/resource-policy" || strings.HasPrefix(name, "checksum/")
	})
}

// withoutCommonLabels leaves the selectors, which say what has to be the same.
func withoutCommonLabels(object map[string]any, path ...string) {
	without(object, append(path, "labels"), func(name string) bool {
		return name == "helm.sh/chart" || strings.HasPrefix(name, "app.kubernetes.io/")
	})
}

// without removes entries of a map, and the map if none is left.
func without(object map[string]any, path []string, isLeftOut func(name string) bool) {
	entries, found, err := unstructured.NestedStringMap(object, path...)
	if err != nil || !found {
		return
	}
	for name := range entries {
		if isLeftOut(name) {
			unstructured.RemoveNestedField(object, append(slices.Clone(path), name)...)
		}
	}
	if left, _, _ := unstructured.NestedMap(object, path...); len(left) == 0 {
		unstructured.RemoveNestedField(object, path...)
	}
}

// withoutHash returns the name of a ConfigMap without the hash that kustomize appends.
func withoutHash(name string) string {
	const letters = 10
	if i := strings.LastIndex(name, "-"); i >= 0 && len(name)-i-1 == letters {
		name = name[:i]
	}
	return name
}

// parseFiles replaces the files in a ConfigMap by what they mean.
func parseFiles(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	data, _, err := unstructured.NestedMap(object.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range data {
		var content any
		if err := yaml.Unmarshal([]byte(text.(string)), &content); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		data[name] = content
	}
	object.Object["data"] = data
}

// sortPod brings what has no order in a workload's Pods into one.
func sortPod(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	pod, _, err := unstructured.NestedMap(object.Object, "spec", "template", "spec")
	if err != nil {
		t.Fatal(err)
	}
	byName := func(a, b any) int {
		return cmp.Compare(fmt.Sprint(a.(map[string]any)["name"]), fmt.Sprint(b.(map[string]any)["name"]))
	}
	if volumes, ok := pod["volumes"].([]any); ok {
		slices.SortFunc(volumes, byName)
		for _, volume := range volumes {
			if name, found, _ := unstructured.NestedString(volume.(map[string]any), "configMap", "name"); found {
				name = strings.TrimSuffix(withoutHash(name), "-observe")
				volume.(map[string]any)["configMap"] = map[string]any{"name": name}
			}
		}
	}
	for _, container := range pod["containers"].([]any) {
		container := container.(map[string]any)
		slices.SortFunc(container["args"].([]any), func(a, b any) int { return cmp.Compare(a.(string), b.(string)) })
		for _, list := range []string{"env", "volumeMounts"} {
			if items, ok := container[list].([]any); ok {
				slices.SortFunc(items, byName)
			}
		}
	}
	if err := unstructured.SetNestedMap(object.Object, pod, "spec", "template", "spec"); err != nil {
		t.Fatal(err)
	}
}
