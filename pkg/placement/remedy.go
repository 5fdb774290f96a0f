// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"falldio.github.io/gpu-controller/pkg/plural"
)

// RemedyKind is what a remedy changes.
type RemedyKind string

// The kinds of remedies, in the order in which they are offered: first the one that
// requires nothing of the user.
const (
	OpenNodes       RemedyKind = "OpenNodes" // let closed nodes take Pods again
	FreeGPUs        RemedyKind = "FreeGPUs"  // wait, or make room
	DropTopology    RemedyKind = "DropTopology"
	AcceptModels    RemedyKind = "AcceptModels"
	ReduceGPUMemory RemedyKind = "ReduceGPUMemory"
	AcceptPools     RemedyKind = "AcceptPools"
	ReduceCPU       RemedyKind = "ReduceCPU"
	ReduceMemory    RemedyKind = "ReduceMemory"
	ReduceResource  RemedyKind = "ReduceResource" // of Shape.Others
	FewerMembers    RemedyKind = "FewerMembers"
	FewerGPUs       RemedyKind = "FewerGPUs"
)

// Remedy is a change that lets a gang fit.
type Remedy struct {
	Kind RemedyKind
	// Text completes the sentence "it would start …": "with 2 more free GPUs in leaf-3".
	Text string
	// Value is what the changed part of the request is afterwards: a model, a number of members or GPUs, or an
	// amount such as "500m" or "1024Mi". It is empty if the change removes a demand. For FreeGPUs it is how many
	// more GPUs have to be free. Resource is the one that ReduceResource is about.
	Value, Resource string
	// Gang is the gang with the change; nil for OpenNodes and FreeGPUs.
	Gang *Gang
	// Nodes are those that would take its Pods if they were empty and not closed; only for OpenNodes.
	Nodes []string
	// Free lists the GPUs that would have to be free, by node, because the Pods that hold
	// them have left; only for FreeGPUs.
	Free map[string][]int
}

// remedies returns the remedies that help, each of them verified.
func (c *Cluster) remedies(g *Gang, never bool) (list []Remedy) {
	tries := []func(*Gang) *Remedy{
		c.shortage,
		c.withoutTopology, c.withModels, c.withGPUMemory, c.withPools, c.withCPU, c.withMemory, c.withResource, c.withFewer, c.withFewerGPUs,
	}
	if never {
		tries = tries[1:]
	}
	for _, try := range tries {
		if remedy := try(g); remedy != nil {
			list = append(list, *remedy)
		}
	}
	return list
}

// opening returns the remedy for a gang that only waits for closed nodes of a domain, and maybe for room there; none if
// these are not known. worst is the request that fits worst.
func opening(within *Domain, worst *Request) []Remedy {
	var names []string
	for _, members := range within.classes {
		for _, n := range members.nodes {
			if n.fitEmpty(worst).Closed() {
				names = append(names, n.Name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	text := "once nodes such as " + some(names) + " take Pods again"
	if len(names) == 1 {
		text = "once " + names[0] + " takes Pods again"
	}
	return []Remedy{{Kind: OpenNodes, Nodes: names, Value: fmt.Sprint(len(names)), Text: text}}
}

// changed returns a copy of a gang with its roles' shapes changed.
func changed(g *Gang, change func(*Shape)) *Gang {
	other := *g
	other.Roles = slices.Clone(g.Roles)
	for i := range other.Roles {
		change(&other.Roles[i].Shape)
	}
	return &other
}

// helps reports whether a changed gang fits.
func (c *Cluster) helps(g *Gang) bool {
	_, fits, err := c.Plan(g)
	return err == nil && fits
}

func (c *Cluster) withoutTopology(g *Gang) *Remedy {
	if !g.Required || g.Level == 0 {
		return nil
	}
	other := *g
	other.Required = false
	if !c.helps(&other) {
		return nil
	}
	plan, _, _ := c.Plan(&other)
	return &Remedy{Kind: DropTopology, Gang: &other, Text: fmt.Sprintf("in %d domains (%s) if one were preferred, not required", len(plan.Domains), some(plan.Domains))}
}

// some joins the first few names of a list.
func some(names []string) string {
	const shown = 3
	if len(names) > shown {
		return strings.Join(names[:shown], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func (c *Cluster) withModels(g *Gang) *Remedy {
	constrained := false
	other := changed(g, func(s *Shape) { constrained, s.Models = constrained || len(s.Models) > 0, nil })
	if !constrained || !c.helps(other) {
		return nil
	}
	if model := c.oneMoreModel(g); model != "" {
		other = changed(g, func(s *Shape) { s.Models = withOne(s.Models, model) })
		return &Remedy{Kind: AcceptModels, Gang: other, Value: model, Text: fmt.Sprintf("on %s (%s)", model, c.nodesFor(other))}
	}
	return &Remedy{Kind: AcceptModels, Gang: other, Text: "with any GPU model (" + c.nodesFor(other) + ")"}
}

// oneMoreModel returns a model that suffices if it is accepted in addition.
func (c *Cluster) oneMoreModel(g *Gang) string {
	models := map[string]bool{}
	for _, members := range c.root.classes {
		models[members.state.kind.model] = members.state.kind.model != ""
	}
	for _, model := range slices.Sorted(maps.Keys(models)) {
		if models[model] && c.helps(changed(g, func(s *Shape) { s.Models = withOne(s.Models, model) })) {
			return model
		}
	}
	return ""
}

// withOne adds a model to a list. An empty list stays empty: it accepts all.
func withOne(models []string, model string) []string {
	if len(models) == 0 {
		return nil
	}
	return append(slices.Clone(models), model)
}

// nodesFor counts the nodes of a gang's plan: "1 node".
func (c *Cluster) nodesFor(g *Gang) string {
	plan, fits, err := c.Plan(g)
	if err != nil || !fits {
		return "no nodes"
	}
	nodes := map[string]bool{}
	for i := range plan.Members {
		nodes[plan.Members[i].Node] = true
	}
	return plural.Count(len(nodes), "node")
}

func (c *Cluster) withPools(g *Gang) *Remedy {
	constrained := false
	other := changed(g, func(s *Shape) { constrained, s.Pool = constrained || s.Pool != "", "" })
	if !constrained || !c.helps(other) {
		return nil
	}
	return &Remedy{Kind: AcceptPools, Gang: other, Text: "in other node pools (" + c.nodesFor(other) + ")"}
}

func (c *Cluster) withGPUMemory(g *Gang) *Remedy {
	var sizes []int64
	for _, members := range c.root.classes {
		sizes = append(sizes, members.state.kind.memories...)
	}
	slices.Sort(sizes)
	for _, size := range slices.Backward(slices.Compact(sizes)) {
		reduced := false
		other := changed(g, func(s *Shape) { reduced, s.GPUMemory = reduced || s.GPUMemory > size, min(s.GPUMemory, size) })
		if reduced && c.helps(other) {
			return &Remedy{Kind: ReduceGPUMemory, Gang: other, Value: fmt.Sprintf("%dMi", size), Text: fmt.Sprintf("on GPUs with %d MiB", size)}
		}
	}
	return nil
}

func (c *Cluster) withCPU(g *Gang) *Remedy {
	cpu, other := c.most(g, func(s *Shape) int64 { return s.CPU }, func(s *Shape, cpu int64) { s.CPU = cpu })
	if other == nil {
		return nil
	}
	return &Remedy{Kind: ReduceCPU, Gang: other, Value: fmt.Sprintf("%dm", cpu), Text: "with " + cores(cpu) + " for each Pod"}
}

func (c *Cluster) withMemory(g *Gang) *Remedy {
	memory, other := c.most(g, func(s *Shape) int64 { return s.Memory }, func(s *Shape, memory int64) { s.Memory = memory })
	if other == nil {
		return nil
	}
	return &Remedy{Kind: ReduceMemory, Gang: other, Value: fmt.Sprintf("%dMi", memory), Text: fmt.Sprintf("with %d MiB memory for each Pod", memory)}
}

// withResource reduces the first of the other resources that can be reduced.
func (c *Cluster) withResource(g *Gang) *Remedy {
	var needed Amounts
	for i := range g.Roles {
		needed = needed.Plus(g.Roles[i].Shape.Others)
	}
	for i := range needed {
		resource := needed[i].Resource
		amount, other := c.most(g,
			func(s *Shape) int64 { return s.Others.Of(resource) },
			func(s *Shape, amount int64) { s.Others = s.Others.With(resource, amount) })
		if other == nil {
			continue
		}
		most := Amount{resource, amount}.readable()
		other = changed(g, func(s *Shape) { s.Others = s.Others.With(resource, min(s.Others.Of(resource), most.Value)) })
		if c.helps(other) {
			return &Remedy{
				Kind: ReduceResource, Gang: other, Value: fmt.Sprint(most.Value), Resource: resource,
				Text: fmt.Sprintf("with %s for each Pod", most),
			}
		}
	}
	return nil
}

// most finds the most of a resource that each member can request for the gang to fit, in
// hundredths of what it requests.
func (c *Cluster) most(g *Gang, get func(*Shape) int64, set func(*Shape, int64)) (amount int64, other *Gang) {
	const steps = 100
	most := int64(0)
	for i := range g.Roles {
		most = max(most, get(&g.Roles[i].Shape))
	}
	limited := func(limit int64) *Gang {
		return changed(g, func(s *Shape) { set(s, min(get(s), limit)) })
	}
	if most == 0 || !c.helps(limited(0)) {
		return 0, nil
	}
	tooMuch := sort.Search(steps, func(step int) bool { return !c.helps(limited(most * int64(step) / steps)) })
	amount = most * int64(tooMuch-1) / steps
	if amount == 0 {
		return 0, nil // "with no CPU at all" is no advice
	}
	return amount, limited(amount)
}

// withFewer finds how many members fit, for a gang with one role.
func (c *Cluster) withFewer(g *Gang) *Remedy {
	if len(g.Roles) != 1 || g.Roles[0].Min < 2 {
		return nil
	}
	with := func(members int) *Gang {
		other := changed(g, func(*Shape) {})
		other.Roles[0].Min, other.Roles[0].Max = members, max(members, 1)
		return other
	}
	members := sort.Search(g.Roles[0].Min, func(fewer int) bool { return !c.helps(with(fewer + 1)) })
	if members == 0 {
		return nil
	}
	return &Remedy{Kind: FewerMembers, Gang: with(members), Value: fmt.Sprint(members), Text: fmt.Sprintf("with %d of its %d Pods", members, g.Roles[0].Min)}
}

// withFewerGPUs finds how many GPUs each Pod could have, for a gang with one role.
func (c *Cluster) withFewerGPUs(g *Gang) *Remedy {
	if len(g.Roles) != 1 || g.Roles[0].Shape.GPUs < 2 {
		return nil
	}
	for gpus := g.Roles[0].Shape.GPUs - 1; gpus > 0; gpus-- {
		other := changed(g, func(s *Shape) { s.GPUs = gpus })
		if c.helps(other) {
			return &Remedy{Kind: FewerGPUs, Gang: other, Value: fmt.Sprint(gpus), Text: fmt.Sprintf("with %s for each Pod", plural.Count(gpus, "GPU"))}
		}
	}
	return nil
}
