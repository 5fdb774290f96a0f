// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// view is one of the views of the page, with what the scene has it show.
type view struct {
	name, route string
	shows       []string
}

func views() []view {
	return []view{
		{"cluster", "#/cluster", []string{"GPUs free", "1 GPU unhealthy", "default/evaluate", "What would help"}},
		{"queue", "#/queue", []string{"wide", "too-big", "evaluate", "research", "vision", "speech", "guaranteed"}},
		{"tasks", "#/tasks", []string{"pretrain", "segment", "transcribe", "notebook-ann", "prepare"}},
		{"task", "#/tasks/default/evaluate", []string{"evaluate", "3 Pods, each 4 GPUs of a100-40gb", "it fits after 1 move", "Suspend", "Delete"}},
		{"whatif", "#/whatif", []string{"kind: GPUTask", "Ask"}},
		{"plans", "#/plans", []string{shared.plan, "Proposed"}},
		{"plan", "#/plans/" + shared.plan, []string{"default/evaluate", "Approve", "Abort", "Before", "After"}},
		{"history", "#/history", []string{"Allocated", "Waited for", "Stranded", "GPU-hours"}},
		{"decisions", "#/decisions", []string{"default/pretrain", "Placed", "Outcome"}},
	}
}

// TestEveryViewInLightAndDark runs before the others, which change what is seen.
func TestEveryViewInLightAndDark(t *testing.T) {
	p := open(t, serve(t, shared.Kubeconfig()), "")
	for _, theme := range []string{"light", "dark"} {
		p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
		for _, view := range views() {
			p.goTo(view.route)
			p.see(view.shows...)
			p.until("the view has a heading", "document.querySelectorAll('h1').length === 1")
			p.until("nothing is wider than the window", "document.documentElement.scrollWidth <= innerWidth")
			p.accessible(view.name + " (" + theme + ")")
			if theme == "light" || view.name == "cluster" {
				p.screenshot(view.name + map[string]string{"dark": "-dark"}[theme])
			}
		}
	}
	p.quiet()
}
