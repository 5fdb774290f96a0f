// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reservation is how places on nodes are kept for Pods that are about to
// come: an annotation of the Node, written by the rescheduler, honoured by
// gpu-scheduler, shown by the command line. It is in the Node, not in anybody's
// memory, so that it survives the death of each of them; and it has a time at which
// it ends by itself, so that it does no harm if nobody comes.
package reservation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// Annotation of a Node has its Reservations, as a JSON list.
const Annotation = v1.GroupName + "/reservations"

// Kind is why a place is kept.
type Kind string

const (
	// Move is for a Pod that is moved: it goes there and nowhere else until the
	// reservation ends.
	Move Kind = "Move"
	// Start is for a Pod that others are moved for: it may start elsewhere if that
	// is possible earlier.
	Start Kind = "Start"
)

// Reservation keeps a place on a node for a Pod.
type Reservation struct {
	// Plan is the name of the MovePlan.
	Plan string `json:"plan"`
	// Pod is the Pod's namespace and name: "default/train-0".
	Pod  string `json:"pod"`
	Kind Kind   `json:"kind"`
	// GPUs are the UUIDs of the cards. A node without an agent has none: then Cards
	// is how many.
	GPUs  []string `json:"gpus,omitempty"`
	Cards int      `json:"cards,omitempty"`
	// Percent is how much of each card.
	Percent int `json:"percent,omitempty"`
	// CPU is in milli-cores, Memory in MiB.
	CPU    int64 `json:"cpu,omitempty"`
	Memory int64 `json:"memory,omitempty"`
	// Priority is the Pod's. It is not kept from Pods of a higher one.
	Priority int32 `json:"priority,omitempty"`
	// Until is when it ends by itself.
	Until time.Time `json:"until"`
}

// PodKey is what Reservation.Pod is for a Pod.
func PodKey(namespace, name string) string { return namespace + "/" + name }

// Holds reports whether the reservation has not ended by itself yet.
func (r *Reservation) Holds(now time.Time) bool { return now.Before(r.Until) }

// Count is how many cards are kept.
func (r *Reservation) Count() int { return max(len(r.GPUs), r.Cards) }

// PercentOfEach is how much of each card is kept: all of it unless Percent says less.
func (r *Reservation) PercentOfEach() int {
	if r.Percent == 0 {
		return placement.Card
	}
	return r.Percent
}

// validate returns what is wrong with a reservation.
func (r *Reservation) validate() error {
	switch {
	case r.Pod == "":
		return errors.New("pod: is missing: whom the place is kept for")
	case r.Kind != Move && r.Kind != Start:
		return fmt.Errorf("kind: must be %s or %s, is %q", Move, Start, r.Kind)
	case r.Percent < 0 || r.Percent > placement.Card:
		return fmt.Errorf("percent: must be 0 to %d, is %d", placement.Card, r.Percent)
	case r.Cards < 0 || r.Cards > placement.MaxCards:
		return fmt.Errorf("cards: must be 0 to %d, is %d", placement.MaxCards, r.Cards)
	case r.CPU < 0 || r.Memory < 0:
		return fmt.Errorf("cpu and memory: must not be negative, are %d and %d", r.CPU, r.Memory)
	}
	return nil
}

// Of returns the reservations of a Node, those that have ended included. An error
// says what can't be read; there are none then.
func Of(node *corev1.Node) ([]Reservation, error) {
	text := node.Annotations[Annotation]
	if text == "" {
		return nil, nil
	}
	var list []Reservation
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("node %s: annotation %s: %w", node.Name, Annotation, err)
	}
	for i := range list {
		if err := list[i].validate(); err != nil {
			return nil, fmt.Errorf("node %s: annotation %s: [%d]: %w", node.Name, Annotation, i, err)
		}
	}
	return list, nil
}

// Format returns the annotation; empty for no reservations.
func Format(list []Reservation) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b Reservation) int {
		return cmp.Or(strings.Compare(a.Plan, b.Plan), strings.Compare(a.Pod, b.Pod))
	})
	text, err := json.Marshal(sorted)
	if err != nil {
		return "", fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	return string(text), nil
}
