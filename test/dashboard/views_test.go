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
		{"cluster", "#/cluster", []string{"GPUs free", "1 GPU unhealthy", "evaluate", "What would help"}},
		{"queue", "#/queue", []string{"wide", "too-big", "evaluate", "research", "vision", "speech", "guaranteed"}},
		{"tasks", "#/tasks", []string{"pretrain", "segment", "transcribe", "notebook-ann", "prepare"}},
		{"task", "#/tasks/default/evaluate", []string{"evaluate", "3 Pods, each 4 GPUs of a100-40gb", "it fits after 1 move", "Approve plan " + shared.plan, "Suspend", "Delete"}},
		{"whatif", "#/whatif", []string{"kind: GPUTask", "Ask", "Create this task"}},
		{"plans", "#/plans", []string{shared.plan, "Proposed"}},
		{"plan", "#/plans/" + shared.plan, []string{"default/evaluate", "Approve", "Abort", "Before", "After"}},
		{"history", "#/history", []string{"Allocated", "Requested", "Stranded", "GPU-hours"}},
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

// cutOff lists what of the view can't be read on a small screen: cells with text that are narrower than six letters, or
// that are not inside of the window.
const cutOff = `[...document.querySelectorAll('main tbody :is(th, td)')].filter(one => one.offsetParent && one.innerText.trim().length > 1).filter(one => {
	const box = one.getBoundingClientRect(), letters = Math.min(6, one.innerText.trim().length);
	return box.width < letters * parseFloat(getComputedStyle(one).fontSize) / 2 || box.left < 0 || box.right > innerWidth;
}).map(one => one.innerText.trim()).join(' | ')`

// TestEveryViewOnSmallScreens runs before the others, too.
func TestEveryViewOnSmallScreens(t *testing.T) {
	p := open(t, serve(t, shared.Kubeconfig()), "")
	for name, size := range map[string][2]int64{"phone": {390, 844}, "tablet": {768, 1024}} {
		p.do(emulation.SetDeviceMetricsOverride(size[0], size[1], 1, true))
		for _, view := range views() {
			p.goTo(view.route)
			p.see(view.shows...)
			p.until("nothing is wider than the window", "document.documentElement.scrollWidth <= innerWidth")
			p.do(evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })"))
			p.until("all of it can be read", "!("+cutOff+")")
			p.until("each cell says what it is", "[...document.querySelectorAll('main tbody td')].every(one => one.dataset.label !== undefined)")
			p.until("the header is small", "document.querySelector('header').offsetHeight <= 56")
			p.until("a map scrolls with the page only", "[...document.querySelectorAll('.map-scroller')].every(one => one.scrollHeight <= one.clientHeight)")
			p.accessible(view.name + " (" + name + ")")
		}
		p.goTo("#/queue")
		p.see("wide", "evaluate")
		p.until("the reasons and starts of what waits are inside of the window", `['.why', '.start'].every(part => {
			const cells = [...document.querySelectorAll('.waiting ' + part)];
			return cells.length > 0 && cells.every(one => one.innerText.trim() !== '' && one.getBoundingClientRect().right <= innerWidth);
		})`)
		p.screenshot(name)
	}
	p.quiet()
}
