// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package trimming

import (
	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// trimForScheduler drops what nothing in a scheduler looks at. It also empties what creators of Pods have written about
// the GPUs that these have: only Bindings may.
func (t *Trimmer) trimForScheduler(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	if _, written := pod.Annotations[inventory.AssignmentAnnotation]; written && pod.Spec.NodeName == "" {
		// Its creator has written it. When the Pod has a place, kube-scheduler's cache has a copy of it on the node,
		// whose assignment would be taken for the scheduler's own. The key stays: its Binding has to overwrite the
		// value.
		pod.Annotations[inventory.AssignmentAnnotation] = ""
	}
	spec := &pod.Spec
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			t.trimContainer(&containers[i])
		}
	}
	spec.Volumes = trimmed(spec.Volumes, isContent)
	spec.Tolerations = t.sharedTolerations(spec.Tolerations)
	spec.HostAliases, spec.ImagePullSecrets, spec.DNSConfig = nil, nil, nil
	status := &pod.Status
	status.ContainerStatuses = t.resizedOrRestarted(status.ContainerStatuses)
	status.InitContainerStatuses = t.resizedOrRestarted(status.InitContainerStatuses)
	status.EphemeralContainerStatuses, status.PodIPs, status.HostIPs = nil, nil, nil
}

func (t *Trimmer) trimContainer(c *corev1.Container) {
	c.Command, c.Args, c.Env, c.EnvFrom, c.VolumeDevices = nil, nil, nil, nil, nil
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil
	// Options of mounts are a feature that nodes have or have not.
	c.VolumeMounts = trimmed(c.VolumeMounts, func(mount corev1.VolumeMount) bool { return len(mount.BindMountOptions) == 0 })
	t.shareResources(&c.Resources)
}

// resizedOrRestarted keeps the resources of containers, as those of a Pod that is being resized are not those of its
// spec, and when they were restarted: whose work counts from then on loses the least if it is preempted.
func (t *Trimmer) resizedOrRestarted(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range statuses {
		before := &statuses[i]
		restarted := podfacts.WasRestarted(before)
		if before.Resources == nil && before.AllocatedResources == nil && !restarted {
			continue
		}
		after := corev1.ContainerStatus{Name: before.Name, Resources: before.Resources, AllocatedResources: t.sharedList(before.AllocatedResources)}
		if restarted {
			after.RestartCount, after.State.Running = before.RestartCount, before.State.Running
		}
		if after.Resources != nil {
			t.shareResources(after.Resources)
		}
		kept = append(kept, after)
	}
	return kept
}

// isContent reports whether a volume is there for its content only, which the kubelet gets
// from the API server, or is empty: it is available on any node.
func isContent(volume corev1.Volume) bool {
	return volume.EmptyDir != nil || volume.ConfigMap != nil || volume.Secret != nil || volume.DownwardAPI != nil || volume.Projected != nil
}
