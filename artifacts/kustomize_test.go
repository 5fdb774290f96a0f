// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	// kustomized is a kustomization whose objects refer to each other by names that end with -x.
	kustomized = `
namePrefix: dev-
resources: [objects.yaml]
generatorOptions: {disableNameSuffixHash: true}
configMapGenerator: [{name: config-x, literals: [a=b]}]
secretGenerator: [{name: secret-x, literals: [a=b]}]
replicas: [{name: train, count: 4}]
labels: [{pairs: {team: vision}, includeTemplates: true}]
images: [{name: trainer, newTag: v3}]
`
	// podOfAll refers to objects of all kinds that a Pod can refer to.
	podOfAll = `
      metadata: {annotations: {}}
      spec:
        serviceAccountName: account-x
        priorityClassName: class-x
        subdomain: service-x
        imagePullSecrets: [{name: secret-x}]
        resourceClaims: [{name: a, resourceClaimName: claim-x}, {name: b, resourceClaimTemplateName: template-x}]
        volumes:
          - {name: a, configMap: {name: config-x}}
          - {name: b, secret: {secretName: secret-x}}
          - {name: c, persistentVolumeClaim: {claimName: volume-x}}
          - {name: d, projected: {sources: [{configMap: {name: config-x}}, {secret: {name: secret-x}}]}}
        containers: [CONTAINER]
        initContainers: [CONTAINER]
`
	container = `{name: main, image: trainer, envFrom: [{configMapRef: {name: config-x}}, {secretRef: {name: secret-x}}], ` +
		`env: [{name: A, valueFrom: {configMapKeyRef: {name: config-x, key: a}}}, {name: B, valueFrom: {secretKeyRef: {name: secret-x, key: a}}}]}`
	objects = `
apiVersion: falldio.com/v1
kind: GPUTask
metadata: {name: prepare-x}
spec: {gpu-amount: "1"}
---
apiVersion: falldio.com/v1
kind: GPUTask
metadata: {name: train}
spec:
  queue: queue-x
  priority: class-x
  dependsOn: [{name: prepare-x}]
  template: POD
  roles:
    - name: worker
      template: POD
---
{apiVersion: falldio.com/v1, kind: GPUQueue, metadata: {name: parent-x}}
---
{apiVersion: falldio.com/v1, kind: GPUQueue, metadata: {name: queue-x}, spec: {parent: parent-x}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: class-x}, value: 1}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: account-x}}
---
{apiVersion: v1, kind: Service, metadata: {name: service-x}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: volume-x}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: claim-x}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: template-x}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: scaler}, spec: {scaleTargetRef: {apiVersion: falldio.com/v1, kind: GPUTask, name: prepare-x}}}
`
)

// built returns the names that are left as they were in what kustomize makes, with their paths, and the task "train".
func built(t *testing.T, kustomization string) (left []string, train *v1.GPUTask) {
	t.Helper()
	configuration, err := os.ReadFile("kustomize/gputask.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files := filesys.MakeFsInMemory()
	pod := strings.ReplaceAll(podOfAll, "CONTAINER", container)
	text := strings.Replace(objects, "template: POD", "template:"+pod, 1)
	text = strings.Replace(text, "template: POD", "template:"+strings.ReplaceAll(pod, "\n      ", "\n          "), 1)
	for name, content := range map[string]string{"kustomization.yaml": kustomization, "objects.yaml": text, "gputask.yaml": string(configuration)} {
		if err := files.WriteFile(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range made.Resources() {
		content, err := object.Map()
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, oldNames(object.GetKind(), content)...)
		if object.GetKind() != "GPUTask" || object.GetName() != "dev-train" {
			continue
		}
		text, err := object.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		train = &v1.GPUTask{}
		if err := yaml.Unmarshal(text, train); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(left)
	return slices.Compact(left), train
}

// oldNames returns the paths of names without their prefix.
func oldNames(path string, value any) (paths []string) {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			paths = append(paths, oldNames(path+"."+key, value[key])...)
		}
	case []any:
		for i := range value {
			paths = append(paths, oldNames(path, value[i])...)
		}
	case string:
		if strings.HasSuffix(value, "-x") && !strings.HasPrefix(value, "dev-") {
			return []string{path + "=" + value}
		}
	}
	return paths
}

func TestKustomizeChangesTheNamesThatTasksReferTo(t *testing.T) {
	t.Parallel()
	left, train := built(t, kustomized+"configurations: [gputask.yaml]\n")
	if diff := cmp.Diff([]string(nil), left); diff != "" {
		t.Errorf("names that are left (-want +got):\n%s", diff)
	}
	if train.Spec.Replicas == nil || *train.Spec.Replicas != 4 {
		t.Errorf("replicas are %v", train.Spec.Replicas)
	}
	if labels := train.Spec.Template.Labels; labels["team"] != "vision" {
		t.Errorf("the template's labels are %v", labels)
	}
	if image := train.Spec.Roles[0].Template.Spec.Containers[0].Image; image != "trainer:v3" {
		t.Errorf("the image is %s", image)
	}
}

// Without the configuration, kustomize knows nothing of tasks: else there would be no need for it.
func TestKustomizeDoesNotKnowTasksByItself(t *testing.T) {
	t.Parallel()
	left, _ := built(t, strings.Replace(kustomized, "replicas: [{name: train, count: 4}]", "", 1))
	for _, want := range []string{"GPUTask.spec.dependsOn.name=prepare-x", "GPUTask.spec.template.spec.containers.envFrom.configMapRef.name=config-x", "GPUQueue.spec.parent=parent-x"} {
		if !slices.Contains(left, want) {
			t.Errorf("%s is not among the names that are left: %v", want, left)
		}
	}
}
