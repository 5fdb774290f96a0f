// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"maps"
	"slices"

	"falldio.github.io/gpu-controller/pkg/gpumodel"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// offering is a Selector that asks for GPUs under a name, and knows from the traits of nodes under which names they
// offer theirs.
type offering interface {
	GPUResource() string
	Offers(traits string) []string
}

// absent says which GPUs no node of a cluster has of those that a gang asks for; empty if there are some for each
// role.
func absent(c *Cluster, g *Gang) string {
	models, traits := map[string]bool{}, map[string]bool{}
	for _, n := range c.nodes {
		kind := n.layout.kind
		models[kind.model] = true // also of nodes whose GPUs are all divided into slices
		if kind.gpus > 0 {
			traits[kind.traits] = true
		}
	}
	delete(models, "") // unknown
	known := slices.Collect(maps.Keys(models))
	for _, demand := range c.demands(g) {
		text := gpumodel.Absent(demand.request.Models, known)
		if text == "" && demand.request.Share == 0 { // shares are of GPUs with another name
			text = absentResource(demand.request.Selector, traits)
		}
		if text != "" {
			return text
		}
	}
	return ""
}

// absentResource names the resources under which GPUs are offered if none is under the one that is asked for.
func absentResource(asks Selector, traits map[string]bool) string {
	selector, ok := asks.(offering)
	if !ok || selector.GPUResource() == "" {
		return ""
	}
	offered := map[string]bool{}
	for text := range traits {
		for _, name := range selector.Offers(text) {
			offered[name] = true
		}
	}
	if len(offered) == 0 || offered[selector.GPUResource()] {
		return ""
	}
	return fmt.Sprintf("no node offers %s (they offer %s)", selector.GPUResource(), plural.List(slices.Sorted(maps.Keys(offered))))
}
