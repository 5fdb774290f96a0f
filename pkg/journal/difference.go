// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func sortedPlaces(places []Place) []Place {
	list := slices.Clone(places)
	slices.SortFunc(list, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Node, b.Node), slices.Compare(a.GPUs, b.GPUs))
	})
	return list
}

func samePlace(a, b Place) bool {
	return a.Role == b.Role && a.Node == b.Node && a.Percent == b.Percent && slices.Equal(a.GPUs, b.GPUs)
}

// difference describes a decision that would have been another one.
func (r *replay) difference(d *Decision, was, is, asked *Question) (*Difference, error) {
	found := &Difference{Number: d.Number, Time: d.Time, Subject: d.Subject, Was: was.answer(), WouldBe: is.answer()}
	if found.Was == found.WouldBe && was != asked {
		found.WouldBe += ", but only without what it would rather avoid"
	}
	if !was.Fits || !is.Fits || was.Kind != is.Kind {
		return found, nil
	}
	if was.Kind == Rank {
		return found, r.comparePrices(found, asked, []Place{{Node: was.Best[0].Node}}, []Place{{Node: is.Best[0].Node}})
	}
	return found, r.comparePrices(found, asked, was.Places, is.Places)
}

// comparePrices sets how much more other places cost by the recorded policy.
func (r *replay) comparePrices(found *Difference, asked *Question, was, is []Place) error {
	before, known, err := r.recorded.price(asked, was)
	if err != nil || !known {
		return err
	}
	after, known, err := r.recorded.price(asked, is)
	if err != nil || !known {
		return err
	}
	more := after - before
	found.More = &more
	return nil
}

// price returns what places cost, one after the other. known is false if one of them is not free.
func (r *replica) price(q *Question, places []Place) (sum float64, known bool, err error) {
	gang, err := r.gangOf(q)
	if err != nil {
		return 0, false, err
	}
	err = r.try(q, func() error {
		for i, place := range places {
			if place.Role < 0 || place.Role >= len(gang.Roles) {
				return fmt.Errorf("places[%d]: role: there is no role %d", i, place.Role)
			}
			priced, fits := r.cluster.On(place.Node, r.cluster.Request(gang.Roles[place.Role].Shape))
			if !fits {
				return nil
			}
			sum += priced.Cost
			if len(place.GPUs) > 0 {
				priced.GPUs = place.GPUs
			}
			if err := r.cluster.Place(placement.Pod{Name: fmt.Sprintf("priced/%d", i), Node: place.Node, Use: priced.Use}); err != nil {
				return err
			}
		}
		known = true
		return nil
	})
	return sum, known, err
}

// answer describes the answer to a question: "node-1 (GPUs 0-3)", "no place".
func (q *Question) answer() string {
	switch {
	case !q.Fits:
		return "no place"
	case q.Kind == Rank:
		names := make([]string, 0, 3)
		for i := range q.Best[:min(3, len(q.Best))] {
			names = append(names, q.Best[i].Node)
		}
		return fmt.Sprintf("%s first of %d nodes", strings.Join(names, ", "), q.Ranked)
	default:
		return describePlaces(q.Places)
	}
}

// maxNamed is how many nodes a description names.
const maxNamed = 4

// describePlaces names the nodes of places, and the cards there.
func describePlaces(places []Place) string {
	list := sortedPlaces(places)
	var parts []string
	for i := 0; i < len(list); {
		node, cards, pods := list[i].Node, []int(nil), 0
		for ; i < len(list) && list[i].Node == node; i++ {
			cards = append(cards, list[i].GPUs...)
			pods++
		}
		parts = append(parts, node+describeCards(cards, pods))
	}
	if len(parts) > maxNamed {
		return fmt.Sprintf("%s and %d more nodes", strings.Join(parts[:maxNamed-1], ", "), len(parts)-maxNamed+1)
	}
	return strings.Join(parts, ", ")
}

func describeCards(cards []int, pods int) string {
	var text string
	slices.Sort(cards)
	cards = slices.Compact(cards)
	switch len(cards) {
	case 0:
	case 1:
		text = fmt.Sprintf("GPU %d", cards[0])
	default:
		text = "GPUs " + ranges(cards)
	}
	if pods > 1 {
		text = strings.TrimPrefix(fmt.Sprintf("%s, %d Pods", text, pods), ", ")
	}
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// ranges describes sorted numbers: "0-3, 6".
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		from := i
		for i++; i < len(numbers) && numbers[i] == numbers[i-1]+1; i++ {
			continue
		}
		if i-from > 1 {
			parts = append(parts, fmt.Sprintf("%d-%d", numbers[from], numbers[i-1]))
		} else {
			parts = append(parts, fmt.Sprint(numbers[from]))
		}
	}
	return strings.Join(parts, ", ")
}
