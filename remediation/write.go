// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/remediation"
)

// Reasons of the Events on a Node.
const (
	ReasonAdded    = "GPUUnhealthyTaintAdded"
	ReasonChanged  = "GPUUnhealthyTaintChanged"
	ReasonRemoved  = "GPUUnhealthyTaintRemoved"
	ReasonHeldBack = "GPUUnhealthyTaintHeldBack"
)

// writeTimeout bounds one write. It is completed even if the process has to stop.
const writeTimeout = 10 * time.Second

// write writes the taints of one Node if the Node is unchanged. The list of taints is atomic in all
// kinds of patches: in a strategic merge patch it has no merge key, and who applies it server-side
// owns all of it. So whoever changes one taint writes all, and only the resource version keeps
// those from being lost that others write at the same time.
func (r *Remediator) write(ctx context.Context, change *remediation.Change) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": change.Node.ResourceVersion},
		"spec":     map[string]any{"taints": change.Taints},
	})
	if err != nil {
		return err
	}
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	node, err := r.deps.Kube.CoreV1().Nodes().Patch(writing, change.Node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it was deleted: the cache is about to show it
	}
	if err != nil {
		return fmt.Errorf("writing the taints of node %s: %w", change.Node.Name, err)
	}
	r.written[node.Name] = trimNode(node)
	klog.FromContext(ctx).Info("Changed the taints of a Node", "node", node.Name, "change", change.Message)
	kind, reason := eventOf(change.Kind)
	r.deps.Recorder.Event(node, kind, reason, change.Message)
	return nil
}

func eventOf(kind remediation.Kind) (eventType, reason string) {
	switch kind {
	case remediation.Removed:
		return corev1.EventTypeNormal, ReasonRemoved
	case remediation.Changed:
		return corev1.EventTypeWarning, ReasonChanged
	default:
		return corev1.EventTypeWarning, ReasonAdded
	}
}

// latest returns the Nodes as this process has written them, where the source does not show that
// yet: else more would be tainted than may be.
func (r *Remediator) latest(nodes []*corev1.Node) []*corev1.Node {
	latest, written := make([]*corev1.Node, len(nodes)), map[string]*corev1.Node{}
	for i, node := range nodes {
		latest[i] = node
		if own := r.written[node.Name]; own != nil && isOlder(node, own) {
			latest[i], written[node.Name] = own, own
		}
	}
	r.written = written
	return latest
}

// isOlder reports whether a Node is an earlier version of another one.
func isOlder(node, other *corev1.Node) bool {
	order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, other.ResourceVersion)
	return err == nil && order < 0 && node.UID == other.UID
}
