// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/reservation"
)

// keep writes a node's reservations, as the rescheduler does.
func (f *fixture) keep(node string, list ...reservation.Reservation) {
	f.t.Helper()
	text, err := reservation.Format(list)
	if err != nil {
		f.t.Fatal(err)
	}
	f.change(node, func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, reservation.Annotation, text) })
}

// change changes a node, for the cache and the informer.
func (f *fixture) change(node string, how func(*corev1.Node)) {
	before := f.infos[node].Node()
	after := before.DeepCopy()
	how(after)
	f.infos[node].SetNode(after)
	f.nodeUpdated(before, after)
}

// moved keeps cards for a Pod that is moved.
func moved(pod string, uuids ...string) reservation.Reservation {
	return reservation.Reservation{
		Plan: "plan", Pod: "default/" + pod, Kind: reservation.Move, GPUs: uuids, CPU: 1000, Until: beginning.Add(10 * time.Minute),
	}
}

// toStart keeps cards for a Pod that others are moved for.
func toStart(pod string, uuids ...string) reservation.Reservation {
	r := moved(pod, uuids...)
	r.Kind = reservation.Start
	return r
}

func important(priority int32, r reservation.Reservation) reservation.Reservation {
	r.Priority = priority
	return r
}

// cardsOf are those of a Pod's seat.
func (f *fixture) cardsOf(p *corev1.Pod) []int {
	seat, seated := f.registry.SeatOf(p.UID)
	if !seated {
		return nil
	}
	return seat.GPUs
}

// step lets time pass and does what is due.
func (f *fixture) step(time time.Duration) {
	f.clock.Step(time)
	f.maintain(f.t.Context())
}

// due returns the Pods to requeue after a while.
func (f *fixture) due(after time.Duration) []string {
	f.step(after)
	var names []string
	for _, p := range f.registry.Due(f.clock.Now(), maxRequeues) {
		names = append(names, p.Name)
	}
	return names
}
