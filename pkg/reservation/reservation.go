// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reservation defines how places on nodes are reserved for Pods that will come:
// with an annotation of the Node, written by the rescheduler, respected by gpu-scheduler,
// shown by the command line. Since it is in the Node, not in memory, it survives restarts
// of each process; and since it expires by itself, it does no harm if the Pod never comes.
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

// Annotation is the annotation of a Node with its Reservations, as a JSON list.
const Annotation = v1.GroupName + "/reservations"

// Kind is why a place is reserved.
type Kind string

const (
	// Move is for a Pod that is moved: it goes there and nowhere else until the
	// reservation ends.
	Move Kind = "Move"
	// Start is for a Pod that others are moved for: it may start elsewhere if that
	// is possible earlier.
	Start Kind = "Start"
)

// Reservation reserves a place on a node for a Pod.
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
	// Others are further resources, by name.
	Others map[string]int64 `json:"others,omitempty"`
	// Priority is the Pod's. Pods of a higher priority are not blocked.
	Priority int32 `json:"priority,omitempty"`
	// Until is when it expires.
	Until time.Time `json:"until"`
}

// PodKey returns the value of Reservation.Pod for a Pod.
func PodKey(namespace, name string) string { return namespace + "/" + name }

// Holds reports whether the reservation has not expired yet.
func (r *Reservation) Holds(now time.Time) bool { return now.Before(r.Until) }

// Count returns how many cards are reserved.
func (r *Reservation) Count() int { return max(len(r.GPUs), r.Cards) }

// PercentOfEach returns how much of each card is reserved: all of it unless Percent is
// less.
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
	case max(r.CPU, r.Memory) > placement.MaxAmount:
		return fmt.Errorf("cpu and memory: must be at most %d, are %d and %d", int64(placement.MaxAmount), r.CPU, r.Memory)
	case len(r.GPUs) > placement.MaxCards:
		return fmt.Errorf("gpus: must be at most %d, are %d", placement.MaxCards, len(r.GPUs))
	}
	for name, amount := range r.Others {
		if amount < 0 {
			return fmt.Errorf("others: %s: must not be negative, is %d", name, amount)
		}
	}
	return nil
}

// Of returns the reservations of a Node, including expired ones. An error is about an
// annotation that can't be parsed; there are no reservations then.
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

// Format returns the value of the annotation; empty for no reservations.
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
