// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// object is one that Pods name, without which they don't start.
type object struct{ kind, name string }

// The kinds of objects that Pods name.
const (
	persistentVolumeClaim = "PersistentVolumeClaim"
	secret                = "Secret"
	configMap             = "ConfigMap"
	resourceClaim         = "ResourceClaim"
	resourceClaimTemplate = "ResourceClaimTemplate"
)

// Look returns which of the objects that the Pods of a task name do not exist, as far as the caller may read them. What
// the manifests would create counts as existing.
func (m *Manifests) Look(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) (analysis.Named, error) {
	var named analysis.Named
	for _, one := range objectsOf(task) {
		if slices.Contains(named.Unchecked, one.kind+"s") || slices.Contains(m.others, one) {
			continue
		}
		err := get(ctx, clients, task.Namespace, one)
		switch {
		case apierrors.IsNotFound(err):
			named.Missing = append(named.Missing, fmt.Sprintf("%s %q does not exist", one.kind, one.name))
			named.AddCommand("kubectl get " + pluralOf(one.kind) + " --namespace " + task.Namespace)
		case apierrors.IsForbidden(err):
			named.Unchecked = append(named.Unchecked, one.kind+"s")
		case err != nil:
			return named, fmt.Errorf("reading %s %s: %w", one.kind, one.name, err)
		}
	}
	return named, nil
}

func get(ctx context.Context, clients *cluster.Clients, namespace string, one object) (err error) {
	core, resources, options := clients.Kube.CoreV1(), clients.Kube.ResourceV1(), metav1.GetOptions{}
	switch one.kind {
	case persistentVolumeClaim:
		_, err = core.PersistentVolumeClaims(namespace).Get(ctx, one.name, options)
	case secret:
		_, err = core.Secrets(namespace).Get(ctx, one.name, options)
	case configMap:
		_, err = core.ConfigMaps(namespace).Get(ctx, one.name, options)
	case resourceClaim:
		_, err = resources.ResourceClaims(namespace).Get(ctx, one.name, options)
	case resourceClaimTemplate:
		_, err = resources.ResourceClaimTemplates(namespace).Get(ctx, one.name, options)
	}
	return err
}

// pluralOf returns the name of a kind's resource.
func pluralOf(kind string) string {
	return map[string]string{
		persistentVolumeClaim: "persistentvolumeclaims", secret: "secrets", configMap: "configmaps",
		resourceClaim: "resourceclaims", resourceClaimTemplate: "resourceclaimtemplates",
	}[kind]
}

// objectsOf returns the objects without which the Pods of a task don't start, each once.
func objectsOf(task *v1.GPUTask) []object {
	var list objects
	list.addTemplate(task.Spec.Template)
	for i := range task.Spec.Roles {
		list.addTemplate(task.Spec.Roles[i].Template)
	}
	return list
}

type objects []object

func (o *objects) addTemplate(template *corev1.PodTemplateSpec) {
	if template == nil {
		return
	}
	spec := &template.Spec
	for i := range spec.Volumes {
		o.addVolume(&spec.Volumes[i].VolumeSource)
	}
	for i := range spec.ResourceClaims {
		o.add(resourceClaim, ptr.Deref(spec.ResourceClaims[i].ResourceClaimName, ""), nil)
		o.add(resourceClaimTemplate, ptr.Deref(spec.ResourceClaims[i].ResourceClaimTemplateName, ""), nil)
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			o.addEnvironment(&containers[i])
		}
	}
}

// add adds an object unless it is known, or Pods start without it.
func (o *objects) add(kind, name string, optional *bool) {
	if one := (object{kind, name}); name != "" && !ptr.Deref(optional, false) && !slices.Contains(*o, one) {
		*o = append(*o, one)
	}
}

func (o *objects) addVolume(volume *corev1.VolumeSource) {
	if volume.PersistentVolumeClaim != nil {
		o.add(persistentVolumeClaim, volume.PersistentVolumeClaim.ClaimName, nil)
	}
	if volume.Secret != nil {
		o.add(secret, volume.Secret.SecretName, volume.Secret.Optional)
	}
	if volume.ConfigMap != nil {
		o.add(configMap, volume.ConfigMap.Name, volume.ConfigMap.Optional)
	}
	if volume.Projected == nil {
		return
	}
	for i := range volume.Projected.Sources {
		source := &volume.Projected.Sources[i]
		if source.Secret != nil {
			o.add(secret, source.Secret.Name, source.Secret.Optional)
		}
		if source.ConfigMap != nil {
			o.add(configMap, source.ConfigMap.Name, source.ConfigMap.Optional)
		}
	}
}

func (o *objects) addEnvironment(container *corev1.Container) {
	for i := range container.EnvFrom {
		if from := container.EnvFrom[i].SecretRef; from != nil {
			o.add(secret, from.Name, from.Optional)
		}
		if from := container.EnvFrom[i].ConfigMapRef; from != nil {
			o.add(configMap, from.Name, from.Optional)
		}
	}
	for i := range container.Env {
		from := container.Env[i].ValueFrom
		if from != nil && from.SecretKeyRef != nil {
			o.add(secret, from.SecretKeyRef.Name, from.SecretKeyRef.Optional)
		}
		if from != nil && from.ConfigMapKeyRef != nil {
			o.add(configMap, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Optional)
		}
	}
}
