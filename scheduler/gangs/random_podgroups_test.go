// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// podOfPodGroup returns a Pod that names one of two PodGroups.
func (s *simulation) podOfPodGroup(name string) *corev1.Pod {
	return pod(name, inPodGroup(s.podGroupRef()), func(p *corev1.Pod) { p.Labels[v1.LabelIndex] = strconv.Itoa(s.dice.IntN(4)) })
}

func (s *simulation) podGroupRef() snapshot.GroupRef {
	return []snapshot.GroupRef{kubernetesGroup("k"), coschedulingGroup("c")}[s.dice.IntN(2)]
}

// changePodGroup lets something happen to PodGroups or what is known of them.
func (s *simulation) changePodGroup() {
	ref := s.podGroupRef()
	switch s.dice.IntN(8) {
	case 0:
		state := GroupsState(s.dice.IntN(4))
		s.note("PodGroups of %s are in state %d", ref.API, state)
		s.do(s.SetGroups(ref.API, state))
	case 1:
		s.note("PodGroup %s is gone", ref.Name)
		s.do(s.ForgetGroup(ref))
	case 2:
		s.note("PodGroup %s is wrong", ref.Name)
		s.do(s.ObserveGroup(ref, nil, errors.New("wrong")))
	case 3:
		s.note("PodGroup %s is no gang", ref.Name)
		s.do(s.ObserveGroup(ref, nil, nil))
	default:
		minimum := 1 + s.dice.IntN(4)
		s.note("PodGroup %s wants %d together", ref.Name, minimum)
		s.do(s.ObserveGroup(ref, &snapshot.GangLabels{Name: ref.Gang(), Min: minimum}, nil))
	}
}

// checkPodGroup checks that a Pod is in the gang that its PodGroup now specifies.
func (s *simulation) checkPodGroup(m *Member) {
	s.t.Helper()
	if m.podGroup.Name == "" || m.binding() {
		return
	}
	labels, _, blocked := s.podGroups.resolve(m.podGroup, m.Pod())
	_, err := m.group.spec()
	switch {
	case m.group.Alone != (labels == nil):
		s.t.Fatalf("Pod %s is alone: %t, its PodGroup specifies %+v", m.UID, m.group.Alone, labels)
	case blocked != nil && fmt.Sprint(err) != blocked.Error():
		s.t.Fatalf("the gang of Pod %s has error %v, its PodGroup %v", m.UID, err, blocked)
	case labels != nil && blocked == nil && !m.bound() && m.labels.Min != labels.Min:
		s.t.Fatalf("Pod %s has the minimum %d, its PodGroup %d", m.UID, m.labels.Min, labels.Min)
	}
}

func kubernetesGroup(name string) snapshot.GroupRef {
	return snapshot.GroupRef{API: snapshot.KubernetesGroups, Namespace: "default", Name: name}
}

func coschedulingGroup(name string) snapshot.GroupRef {
	return snapshot.GroupRef{API: snapshot.CoschedulingGroups, Namespace: "default", Name: name}
}

// inPodGroup makes a Pod name a PodGroup.
func inPodGroup(ref snapshot.GroupRef) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		switch ref.API {
		case snapshot.KubernetesGroups:
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &ref.Name}
		case snapshot.VolcanoGroups:
			annotated("scheduling.volcano.sh/group-name", ref.Name)(p)
		case snapshot.CoschedulingGroups:
			p.Labels["scheduling.x-k8s.io/pod-group"] = ref.Name
		default:
			panic(fmt.Sprint("no Pod can name ", ref))
		}
	}
}
