// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"falldio.github.io/gpu-controller/localcluster/names"
)

const installInterval = 50 * time.Millisecond

// installLog is the name of the log of the installation.
const installLog = "install"

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// install applies the artifacts and waits until the API server serves their
// resources.
func (c *cluster) install(ctx context.Context) error {
	if c.options.Artifacts == nil {
		return nil
	}
	if err := os.CopyFS(c.layout.artifacts(), c.options.Artifacts); err != nil {
		return fmt.Errorf("writing the artifacts: %w", err)
	}
	kustomization, err := c.writeKustomization()
	if err != nil {
		return fmt.Errorf("writing the artifacts: %w", err)
	}
	if err := c.apply(ctx, kustomization); err != nil {
		return &startError{component: installLog, log: c.layout.log(installLog), err: err}
	}
	if err := c.waitForResources(ctx); err != nil {
		return err
	}
	c.console.done("artifacts installed")
	return nil
}

func (c *cluster) apply(ctx context.Context, kustomization string) error {
	log, err := os.OpenFile(c.layout.log(installLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	args := append([]string{"component", names.Kubectl}, applyArgs(c.layout, kustomization)...)
	command := exec.CommandContext(ctx, c.options.Executable, args...)
	command.Stdout, command.Stderr = log, log
	c.group.Adopt(command)
	return command.Run()
}

// waitForResources returns when all CustomResourceDefinitions are established.
func (c *cluster) waitForResources(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, installInterval, true, func(ctx context.Context) (bool, error) {
		list, err := c.dynamic.Resource(crdResource).List(ctx, metav1.ListOptions{})
		if err != nil {
			last = err
			return false, nil //nolint:nilerr // it may work the next time
		}
		last = firstUnestablished(list.Items)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the custom resources: %w: %w", err, last)
	}
	return nil
}

// firstUnestablished returns an error for the first definition that is not
// established yet.
func firstUnestablished(definitions []unstructured.Unstructured) error {
	for i := range definitions {
		if !isEstablished(&definitions[i]) {
			return fmt.Errorf("%s is not established", definitions[i].GetName())
		}
	}
	return nil
}

func isEstablished(definition *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(definition.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, condition := range conditions {
		fields, ok := condition.(map[string]any)
		if ok && fields["type"] == "Established" {
			return fields["status"] == "True"
		}
	}
	return false
}

// waitForServiceAccount returns when Pods can be created in the default
// namespace.
func (c *cluster) waitForServiceAccount(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, installInterval, true, func(ctx context.Context) (bool, error) {
		_, last = c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the default service account: %w: %w", err, last)
	}
	return nil
}
