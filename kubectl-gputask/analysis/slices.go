// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/migprofile"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Slice is a MIG slice of a divided GPU.
type Slice struct {
	Profile string `json:"profile"`
	// Use is Unhealthy, Busy, Closed or Free.
	Use CardUse `json:"use"`
}

// HeldSlice is a slice that a Pod has: the number of its GPU on the node, and its place there.
type HeldSlice struct{ GPU, Slice int }

// Profile is how the slices of a profile are used, on the GPUs of a model in a pool.
type Profile struct {
	Profile   string `json:"profile"`
	Model     string `json:"model"`
	Pool      string `json:"pool,omitempty"`
	Nodes     int    `json:"nodes"`
	Slices    int    `json:"slices"`
	Free      int    `json:"free"`
	Closed    int    `json:"closed,omitempty"`
	Busy      int    `json:"busy"`
	Unhealthy int    `json:"unhealthy,omitempty"`
}

// findSliceHolders finds out who has which MIG slice: what the Pods' annotations say, and for Pods
// without one, any that is left of their profile: which of them they have makes no difference.
func (v *View) findSliceHolders() {
	v.slicesOf = map[string]*corev1.Pod{}
	pods := map[string][]*corev1.Pod{}
	for pod := range v.Placed() {
		if len(v.Cards[pod.Spec.NodeName].Divided()) > 0 && snapshot.WantsSlices(pod) {
			pods[pod.Spec.NodeName] = append(pods[pod.Spec.NodeName], pod)
		}
	}
	for node, list := range pods {
		slices.SortFunc(list, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
		for _, pod := range list {
			for _, uuid := range snapshot.AssignedSlices(pod) {
				v.slicesOf[uuid] = pod
			}
		}
		for _, pod := range list {
			if len(snapshot.AssignedSlices(pod)) == 0 {
				v.guessSlices(node, pod)
			}
		}
	}
}

// guessSlices supposes that a Pod has the first slices that nobody else has, healthy ones if possible.
func (v *View) guessSlices(node string, pod *corev1.Pod) {
	wanted := snapshot.RequestedSlices(pod)
	divided := slices.Clone(v.Cards[node].Divided())
	slices.SortStableFunc(divided, func(a, b snapshot.Divided) int { return cmp.Compare(a.Health, b.Health) }) // "Healthy" comes first
	for i := range divided {
		for _, slice := range divided[i].Slices {
			if v.slicesOf[slice.UUID] == nil && wanted[slice.Profile] > 0 {
				wanted[slice.Profile]--
				v.slicesOf[slice.UUID] = pod
			}
		}
	}
}

// heldSlices returns the slices that each Pod has on a node, by the Pod's UID.
func (v *View) heldSlices(node string) map[string][]HeldSlice {
	var held map[string][]HeldSlice
	for _, gpu := range v.Cards[node].Divided() {
		for i := range gpu.Slices {
			pod := v.slicesOf[gpu.Slices[i].UUID]
			if pod == nil {
				continue
			}
			if held == nil {
				held = map[string][]HeldSlice{}
			}
			held[string(pod.UID)] = append(held[string(pod.UID)], HeldSlice{GPU: gpu.Number, Slice: i})
		}
	}
	return held
}

// withDivided adds the divided GPUs of a node to its other cards, each at its number.
func (v *View) withDivided(node string, whole []Card, closed bool) []Card {
	divided := v.Cards[node].Divided()
	if len(divided) == 0 {
		return whole
	}
	all := make([]Card, 0, len(whole)+len(divided))
	for _, gpu := range divided {
		before := min(gpu.Number-len(all), len(whole))
		all, whole = append(all, whole[:before]...), whole[before:]
		all = append(all, v.dividedCard(gpu, closed))
	}
	return append(all, whole...)
}

func (v *View) dividedCard(gpu snapshot.Divided, closed bool) Card {
	card := Card{Use: CardDivided, Slices: make([]Slice, len(gpu.Slices))}
	healthy, compute := gpu.Health == inventory.Healthy, 0
	if !healthy {
		card.Use = CardUnhealthy
	}
	for i, slice := range gpu.Slices {
		one := Slice{Profile: slice.Profile, Use: CardFree}
		busy := v.slicesOf[slice.UUID] != nil
		switch {
		case !healthy:
			one.Use = CardUnhealthy
		case busy:
			one.Use = CardBusy
		case closed:
			one.Use = CardClosed
		}
		if busy {
			compute += migprofile.Compute(slice.Profile)
		}
		card.Slices[i] = one
	}
	card.Percent = min(placement.Card, compute*placement.Card/migprofile.ComputeSlices)
	return card
}

// profiles counts the slices of the nodes by profile, model and pool.
func profiles(leaves []Leaf) []Profile {
	byKey := map[[3]string]*Profile{}
	for i := range leaves {
		for j := range leaves[i].Nodes {
			countSlices(byKey, &leaves[i].Nodes[j])
		}
	}
	list := make([]Profile, 0, len(byKey))
	for _, one := range byKey {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b Profile) int {
		return cmp.Or(cmp.Compare(migprofile.Compute(a.Profile), migprofile.Compute(b.Profile)), cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Pool, b.Pool))
	})
	return list
}

func countSlices(byKey map[[3]string]*Profile, node *NodeUse) {
	here := map[*Profile]bool{}
	for i := range node.GPUs {
		for j := range node.GPUs[i].Slices {
			slice := &node.GPUs[i].Slices[j]
			key := [3]string{slice.Profile, node.Model, node.Pool}
			if byKey[key] == nil {
				byKey[key] = &Profile{Profile: slice.Profile, Model: node.Model, Pool: node.Pool}
			}
			one := byKey[key]
			one.count(slice.Use)
			if !here[one] {
				here[one] = true
				one.Nodes++
			}
		}
	}
}

func (p *Profile) count(use CardUse) {
	p.Slices++
	switch use {
	case CardUnhealthy:
		p.Unhealthy++
	case CardBusy:
		p.Busy++
	case CardClosed:
		p.Closed++
	default:
		p.Free++
	}
}

// slicesIn returns the MIG slices among amounts, by profile; nil if there are none.
func slicesIn(amounts placement.Amounts) map[string]int64 {
	var found map[string]int64
	for i := range amounts {
		if profile, ok := v1.SliceProfile(corev1.ResourceName(amounts[i].Resource)); ok {
			if found == nil {
				found = map[string]int64{}
			}
			found[profile] += amounts[i].Value
		}
	}
	return found
}

// onlySlices returns the MIG slices among amounts as amounts.
func onlySlices(amounts placement.Amounts) placement.Amounts {
	var found placement.Amounts
	for i := range amounts {
		if _, ok := v1.SliceProfile(corev1.ResourceName(amounts[i].Resource)); ok {
			found = append(found, amounts[i])
		}
	}
	return found
}
