// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Component is one of our programs in the cluster.
type Component struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	// Image is that of the container, with its version as the tag or digest.
	Image string `json:"image"`
	// Ready of the Desired Pods are ready.
	Ready   int32 `json:"ready"`
	Desired int32 `json:"desired"`
}

const (
	labelName    = "app.kubernetes.io/name"
	deployments  = labelName + " in (gpu-controller, gpu-scheduler)"
	daemonSets   = labelName + "=nodeagent"
	homeOfMost   = "gpu-controller-system"
	homeOfAgents = "nodeagent-system"
)

// Components returns our programs in the cluster, and an error if some can't be seen. Users
// who may not look into all namespaces see those in the namespaces of our manifests.
func Components(ctx context.Context, clients *Clients) ([]Component, error) {
	var found []Component
	var failures []error
	apps := clients.Kube.AppsV1()
	failures = append(failures, inNamespaces(homeOfMost, func(namespace string) error {
		list, err := apps.Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: deployments})
		if err != nil {
			return fmt.Errorf("listing deployments: %w", err)
		}
		for i := range list.Items {
			one := &list.Items[i]
			desired := int32(1)
			if one.Spec.Replicas != nil {
				desired = *one.Spec.Replicas
			}
			found = append(found, Component{
				Name: one.Name, Kind: "Deployment", Namespace: one.Namespace, Image: imageOf(&one.Spec.Template), Ready: one.Status.ReadyReplicas, Desired: desired,
			})
		}
		return nil
	}))
	failures = append(failures, inNamespaces(homeOfAgents, func(namespace string) error {
		list, err := apps.DaemonSets(namespace).List(ctx, metav1.ListOptions{LabelSelector: daemonSets})
		if err != nil {
			return fmt.Errorf("listing daemonsets: %w", err)
		}
		for i := range list.Items {
			one := &list.Items[i]
			found = append(found, Component{
				Name: one.Name, Kind: "DaemonSet", Namespace: one.Namespace, Image: imageOf(&one.Spec.Template),
				Ready: one.Status.NumberReady, Desired: one.Status.DesiredNumberScheduled,
			})
		}
		return nil
	}))
	return found, utilerrors.NewAggregate(failures)
}

// inNamespaces lists in all namespaces, or, if that is forbidden, in one.
func inNamespaces(home string, list func(namespace string) error) error {
	err := list(metav1.NamespaceAll)
	if apierrors.IsForbidden(err) {
		return list(home)
	}
	return err
}

func imageOf(template *corev1.PodTemplateSpec) string {
	if len(template.Spec.Containers) == 0 {
		return ""
	}
	return template.Spec.Containers[0].Image
}
