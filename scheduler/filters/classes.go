// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// sweep drops the classes of Pods that are gone.
func (c classCache) sweep(exists func(types.UID) bool) {
	maps.DeleteFunc(c, func(uid types.UID, _ knownClass) bool { return !exists(uid) })
}

// maxKnownClasses bounds the cache of classes.
const maxKnownClasses = 1 << 12

// classCache keeps the classes of Pods: a gang may be planned many times. It is for use in
// the scheduling cycle only.
type classCache map[types.UID]knownClass

type knownClass struct {
	pod   *corev1.Pod
	class Class
}

// ClassOf returns the class of a member.
func (c *Consultant) ClassOf(m *gangs.Member) Class {
	pod := m.Pod()
	if known, cached := c.classes[m.UID]; cached && known.pod == pod {
		return known.class
	}
	if len(c.classes) >= maxKnownClasses {
		clear(c.classes)
	}
	known := knownClass{pod: pod, class: ClassOf(pod)}
	c.classes[m.UID] = known
	return known.class
}
