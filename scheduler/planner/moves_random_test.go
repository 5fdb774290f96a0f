// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/reservation"
)

// scene is a random cluster with reservations, no two of which are for the same card.
type scene struct {
	*fixture
	dice *rand.Rand
	// user is the Pod that has a card, by its UUID, and kept the card's reservation.
	user map[string]string
	kept map[string]reservation.Reservation
}

func newScene(t *testing.T, seed uint64) *scene {
	t.Helper()
	s := &scene{fixture: newFixture(t), dice: rand.New(rand.NewPCG(seed, 4)), user: map[string]string{}, kept: map[string]reservation.Reservation{}}
	for _, node := range []string{"a", "b", "c"} {
		s.addNode(node, "l", 4)
		for card := range 4 {
			if s.dice.IntN(5) < 2 {
				user := fmt.Sprintf("user-%s-%d", node, card)
				s.comes(at(pod(user, 1), node, card))
				s.user[fmt.Sprintf("%s-%d", node, card)] = user
			}
		}
	}
	for name, list := range s.reservations() {
		s.keep(name, list...)
	}
	return s
}

// reservations are for Pods p0 to p3, which come, and for Pods q0 to q3, which don't.
func (s *scene) reservations() map[string][]reservation.Reservation {
	lists := map[string][]reservation.Reservation{}
	for i := range 8 {
		node, cards := string(rune('a'+s.dice.IntN(3))), s.dice.Perm(4)[:1+i%2]
		uuids := make([]string, len(cards))
		taken := false
		for j, card := range cards {
			uuids[j] = fmt.Sprintf("%s-%d", node, card)
			_, is := s.kept[uuids[j]]
			taken = taken || is
		}
		if taken || s.dice.IntN(4) == 0 {
			continue
		}
		one := moved(fmt.Sprintf("%c%d", "pq"[i/4], i%4), uuids...)
		one.Priority = int32(s.dice.IntN(3))
		if s.dice.IntN(2) == 0 {
			one.Kind = reservation.Start
		}
		lists[node] = append(lists[node], one)
		for _, uuid := range uuids {
			s.kept[uuid] = one
		}
	}
	return lists
}

// room is the most cards of one node that a Pod may have.
func (s *scene) room(p *corev1.Pod) int {
	most := 0
	for _, node := range s.names {
		count := 0
		for card := range 4 {
			if uuid := fmt.Sprintf("%s-%d", node, card); s.user[uuid] == "" && !s.keptFrom(uuid, p) {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

// keptFrom reports whether a card is kept for another Pod that counts at least as much.
func (s *scene) keptFrom(uuid string, p *corev1.Pod) bool {
	kept, is := s.kept[uuid]
	return is && kept.Pod != "default/"+p.Name && kept.Priority >= *p.Spec.Priority
}

// destination is what is kept for a Pod that is moved and wants so many cards, in order.
func (s *scene) destination(p *corev1.Pod, want int) []string {
	var to []string
	for uuid, kept := range s.kept {
		if kept.Pod == "default/"+p.Name && kept.Kind == reservation.Move && len(kept.GPUs) == want {
			to = append(to, uuid)
		}
	}
	slices.Sort(to)
	return to
}

// place adds a Pod and checks what becomes of it.
func (s *scene) place(p *corev1.Pod, want int) {
	s.t.Helper()
	s.comes(p)
	to, room, decision := s.destination(p, want), s.room(p), s.decide(p)
	blocked := slices.ContainsFunc(to, func(uuid string) bool { return s.user[uuid] != "" })
	var got []string
	for _, card := range s.cardsOf(p) {
		got = append(got, fmt.Sprintf("%s-%d", decision.Node, card))
	}
	slices.Sort(got)
	switch {
	case blocked:
		if len(got) > 0 || !strings.Contains(decision.Waits, "not free yet") {
			s.t.Errorf("%s, whose cards %v are in use, gets %v: %+v", p.Name, to, got, decision)
		}
	case len(to) > 0:
		if !slices.Equal(got, to) {
			s.t.Errorf("%s gets %v, %v are kept for it", p.Name, got, to)
		}
	case (len(got) > 0) != (room >= want):
		s.t.Errorf("%s gets %v, there are %d cards for it, and it wants %d", p.Name, got, room, want)
	}
	s.take(p, got, decision.Node)
}

// take checks that cards of a node are a Pod's to take, and notes that it has them.
func (s *scene) take(p *corev1.Pod, uuids []string, node string) {
	s.t.Helper()
	for _, uuid := range uuids {
		if s.user[uuid] != "" || s.keptFrom(uuid, p) {
			s.t.Errorf("%s gets card %s, which %q has; kept is %+v", p.Name, uuid, s.user[uuid], s.kept[uuid])
		}
		s.user[uuid] = p.Name
	}
	maps.DeleteFunc(s.kept, func(uuid string, kept reservation.Reservation) bool {
		return len(uuids) > 0 && kept.Pod == "default/"+p.Name && strings.HasPrefix(uuid, node)
	})
}

// What a decision gives is free and not kept for another one; a Pod that is moved gets
// what is kept for it; and every Pod for which there is room gets a place.
func TestReservedPlacesInRandomClusters(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		s := newScene(t, seed)
		for _, i := range s.dice.Perm(8) {
			priority, want := int32(s.dice.IntN(3)), 1+i%2
			s.place(pod(fmt.Sprintf("%c%d", "pr"[i/4], i%4), want, prioritized(priority)), want)
		}
		if t.Failed() {
			t.Fatalf("seed %d; reserved are %+v", seed, s.kept)
		}
	}
}
