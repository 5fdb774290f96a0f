// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// refusal is a node that rejects a Pod for one reason.
type refusal struct {
	reason placement.Reason
	node   func() *nodeBuilder
	uses   []placement.Use
	shape  placement.Shape
}

// refusals returns each reason at least once.
func refusals() map[string]refusal {
	plain := func() *nodeBuilder { return aNode("n", 4) }
	changed := func(change func(*placement.Node)) func() *nodeBuilder {
		return func() *nodeBuilder { return plain().but(change) }
	}
	withMemory := func(shape placement.Shape, memory int64) placement.Shape {
		shape.GPUMemory = memory
		return shape
	}
	ofModel := func(shape placement.Shape, models ...string) placement.Shape {
		shape.Models = models
		return shape
	}
	mixed := func() *nodeBuilder { return plain().memories(40, 40, 80, 80) }
	return map[string]refusal{
		"whatever is needed is there":               {placement.Fits, plain, nil, whole(4)},
		"all that is needed and no more is there":   {placement.Fits, func() *nodeBuilder { return plain().size(1000, 1000, 1) }, nil, whole(4)},
		"a Pod without GPUs fits beside full cards": {placement.Fits, plain, []placement.Use{use(100, 0, 1, 2, 3)}, shapeOf{CPU: 1}},
		"a Pod for what belongs to other GPUs":      {placement.OtherModel, plain, nil, ofModel(shapeOf{CPU: 1}, "other")},
		"the selector admits the node":              {placement.Fits, func() *nodeBuilder { return plain().traits("abT") }, nil, on(letters("bT"), whole(1))},
		"without a selector any traits will do":     {placement.Fits, func() *nodeBuilder { return plain().traits("T") }, nil, whole(1)},
		"a Pod without GPUs needs no GPU memory":    {placement.Fits, func() *nodeBuilder { return aNode("n", 0) }, nil, withMemory(shapeOf{CPU: 1}, 1)},
		"the node's pool is asked for":              {placement.Fits, changed(func(n *placement.Node) { n.Pool = "p" }), nil, shapeOf{Pool: "p"}},
		"a node of a pool takes Pods of any":        {placement.Fits, changed(func(n *placement.Node) { n.Pool = "p" }), nil, shapeOf{}},
		"one of the models is the node's":           {placement.Fits, plain, nil, ofModel(whole(1), "a", model)},
		"the last share fits exactly":               {placement.Fits, plain, []placement.Use{use(100, 0, 1, 2), use(30, 3)}, share(70)},
		"enough GPUs have the memory":               {placement.Fits, mixed, []placement.Use{use(100, 0, 1)}, withMemory(whole(2), 80)},

		"what is asked for makes no sense":       {placement.InvalidRequest, plain, nil, shapeOf{Share: 150}},
		"the node takes no Pods":                 {placement.NodeClosed, changed(func(n *placement.Node) { n.Closed = true }), nil, shapeOf{}},
		"a node of another model takes no Pods":  {placement.OtherModel, changed(func(n *placement.Node) { n.Closed = true }), nil, ofModel(whole(1), "a")},
		"a full node takes no Pods":              {placement.NodeClosed, changed(func(n *placement.Node) { n.Closed = true }), []placement.Use{use(100, 0, 1, 2, 3)}, whole(1)},
		"the node is cordoned":                   {placement.NodeCordoned, changed(func(n *placement.Node) { n.Closed = true }), nil, on(odd{placement.NodeCordoned}, whole(1))},
		"the node is not ready":                  {placement.NodeNotReady, changed(func(n *placement.Node) { n.Closed = true }), nil, on(odd{placement.NodeNotReady}, whole(1))},
		"the node is in another pool":            {placement.OtherPool, changed(func(n *placement.Node) { n.Pool = "p" }), nil, shapeOf{Pool: "q"}},
		"the node is in no pool":                 {placement.OtherPool, plain, nil, shapeOf{Pool: "q"}},
		"the selector wants other labels":        {placement.OtherLabels, plain, nil, on(letters("a"), shapeOf{})},
		"a taint is not tolerated":               {placement.Tainted, func() *nodeBuilder { return plain().traits("T") }, nil, on(letters(""), shapeOf{})},
		"the GPUs are offered by another name":   {placement.NotOffered, plain, nil, on(odd{placement.NotOffered}, whole(1))},
		"another node is named":                  {placement.OtherLabels, plain, nil, at(named("m"), whole(1))},
		"no node is named":                       {placement.OtherLabels, plain, nil, at(named(), whole(1))},
		"another hostname is named":              {placement.OtherLabels, changed(func(n *placement.Node) { n.Hostname = "h" }), nil, at(hosted("n"), whole(1))},
		"a hostname is named, the node has none": {placement.OtherLabels, plain, nil, at(hosted("n", ""), whole(1))},
		"the node is not wanted":                 {placement.OtherLabels, plain, nil, at(not(named("n")), whole(1))},
		"the node is named":                      {placement.Fits, plain, nil, at(named("m", "n"), whole(1))},
		"its hostname is named":                  {placement.Fits, changed(func(n *placement.Node) { n.Hostname = "h" }), nil, at(hosted("h"), whole(1))},
		"a node without a hostname is wanted":    {placement.Fits, plain, nil, at(not(hosted("h")), whole(1))},
		"the named node is full":                 {placement.InsufficientGPUs, plain, []placement.Use{use(100, 1)}, at(named("n"), whole(4))},
		"the GPUs are of another model":          {placement.OtherModel, plain, nil, ofModel(whole(1), "a", "b")},
		"a share is of another model":            {placement.OtherModel, plain, nil, ofModel(share(1), "a")},
		"the node never has so many GPUs":        {placement.TooFewGPUs, plain, nil, whole(5)},
		"the node has no GPU to share":           {placement.TooFewGPUs, func() *nodeBuilder { return aNode("n", 0) }, nil, share(1)},
		"all GPUs have too little memory":        {placement.TooLittleGPUMemory, plain, nil, withMemory(whole(1), gpuMemory+1)},
		"too few GPUs have the memory":           {placement.TooLittleGPUMemory, mixed, nil, withMemory(whole(3), 41)},
		"no GPU to share has the memory":         {placement.TooLittleGPUMemory, mixed, nil, withMemory(share(1), 81)},
		"the node never has so much CPU":         {placement.NodeTooSmall, plain, nil, shapeOf{CPU: 64001}},
		"the node never has so much memory":      {placement.NodeTooSmall, plain, nil, shapeOf{Memory: 512001}},
		"the node never has a slot":              {placement.NodeTooSmall, func() *nodeBuilder { return plain().size(1, 1, 0) }, nil, shapeOf{}},
		"all slots are taken":                    {placement.NoPodSlot, func() *nodeBuilder { return plain().size(9, 9, 1) }, []placement.Use{{}}, shapeOf{}},
		"CPU is in use":                          {placement.InsufficientCPU, plain, []placement.Use{{CPU: 1}}, shapeOf{CPU: 64000}},
		"memory is in use":                       {placement.InsufficientMemory, plain, []placement.Use{{Memory: 1}}, shapeOf{Memory: 512000}},
		"GPUs are in use":                        {placement.InsufficientGPUs, plain, []placement.Use{use(100, 1)}, whole(4)},
		"a shared GPU is not whole":              {placement.InsufficientGPUs, plain, []placement.Use{use(1, 1)}, whole(4)},
		"a broken GPU is not given":              {placement.InsufficientGPUs, func() *nodeBuilder { return plain().broken(3) }, nil, whole(4)},
		"the large GPUs are in use":              {placement.InsufficientGPUs, mixed, []placement.Use{use(1, 3)}, withMemory(whole(2), 80)},
		"no card has so much left":               {placement.InsufficientShare, plain, []placement.Use{use(31, 0, 1, 2, 3)}, share(70)},
		"the free card is broken":                {placement.InsufficientShare, func() *nodeBuilder { return plain().broken(3) }, []placement.Use{use(100, 0, 1, 2)}, share(1)},
		"the cards with room are too small":      {placement.InsufficientShare, mixed, []placement.Use{use(60, 2, 3)}, withMemory(share(50), 80)},
		"the node has none of a resource":        {placement.ResourceTooSmall, plain, nil, shapeOf{Others: amounts(1, 0)}},
		"the node never has so much storage":     {placement.ResourceTooSmall, func() *nodeBuilder { return plain().others(4, 1000) }, nil, shapeOf{Others: amounts(4, 1001)}},
		"network adapters are in use":            {placement.InsufficientResource, func() *nodeBuilder { return plain().others(4, 0) }, []placement.Use{{Others: amounts(2, 7)}}, shapeOf{Others: amounts(3, 0)}},
		"more adapters are promised than there":  {placement.InsufficientResource, func() *nodeBuilder { return plain().others(4, 0) }, []placement.Use{{Others: amounts(5, 0)}}, shapeOf{Others: amounts(1, 0)}},
		"the last adapters fit exactly":          {placement.Fits, func() *nodeBuilder { return plain().others(4, 9) }, []placement.Use{{Others: amounts(1, 0)}}, shapeOf{Others: amounts(3, 9)}},
		"adapters are promised to nobody else":   {placement.Fits, func() *nodeBuilder { return plain().others(4, 0) }, []placement.Use{{Others: amounts(9, 0)}}, whole(1)},
		"more CPU is promised than there is":     {placement.InsufficientCPU, plain, []placement.Use{{CPU: 64001}}, shapeOf{}},
		"more memory than there is":              {placement.InsufficientMemory, plain, []placement.Use{{Memory: 512001}}, shapeOf{}},
		"more Pods run than there are slots":     {placement.NoPodSlot, func() *nodeBuilder { return plain().size(9, 9, 1) }, []placement.Use{{}, {}}, shapeOf{}},
		"a card that is promised twice is full":  {placement.InsufficientGPUs, plain, []placement.Use{use(100, 0), use(90, 0)}, whole(4)},
	}
}

func TestARefusalHasItsReason(t *testing.T) {
	t.Parallel()
	seen := map[placement.Reason]bool{placement.Excluded: true} // not a property of a node
	for name, test := range refusals() {
		seen[test.reason] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, test.node())
			for i, holds := range test.uses {
				run(t, c, string(rune('a'+i)), "n", holds)
			}
			r := c.Request(test.shape)
			if got := c.FitOf("n", r); got != test.reason {
				t.Errorf("the node %s, want: it %s", got, test.reason)
			}
			if got := c.CapacityOf("n", r) > 0; got != (test.reason == placement.Fits) {
				t.Errorf("it takes %d Pods, but %s", c.CapacityOf("n", r), test.reason)
			}
			if _, found := c.Find(r, c.Root()); found != (test.reason == placement.Fits) {
				t.Errorf("a place is found: %v, but the node %s", found, test.reason)
			}
		})
	}
	for _, reason := range placement.Reasons() {
		if !seen[reason] {
			t.Errorf("no test refuses since the node %s", reason)
		}
	}
}

// TestTheFirstReasonIsReturned begins with a node and a shape for which
// every reason holds, and removes one after the other.
func TestTheFirstReasonIsReturned(t *testing.T) {
	t.Parallel()
	node := aNode("n", 2).memories(40, 40).but(func(n *placement.Node) { n.Closed, n.Pool, n.Traits = true, "p", "T" }).size(5000, 5000, 1).others(4, 0)
	shape := shapeOf{CPU: 5001, Memory: 5001, Others: amounts(5, 0), GPUs: 3, GPUMemory: 41, Models: []string{"x"}, Pool: "q", Selector: letters("a")}
	uses := []placement.Use{use(100, 0), use(100, 1)}
	uses[0].Others = amounts(2, 0)
	steps := []struct {
		want  placement.Reason
		relax func()
	}{
		{placement.OtherPool, func() { shape.Pool = "p" }},
		{placement.OtherLabels, func() { shape.Selector = letters("") }},
		{placement.Tainted, func() { shape.Selector = letters("T") }},
		{placement.OtherModel, func() { shape.Models = nil }},
		{placement.TooFewGPUs, func() { shape.GPUs = 2 }},
		{placement.TooLittleGPUMemory, func() { shape.GPUMemory = 40 }},
		{placement.NodeTooSmall, func() { shape.CPU, shape.Memory = 5000, 5000 }},
		{placement.ResourceTooSmall, func() { shape.Others = amounts(4, 0) }},
		{placement.NodeClosed, func() { node.Closed = false }},
		{placement.NoPodSlot, func() { node.Slots = 3 }},
		{placement.InsufficientCPU, func() { shape.CPU = 3000 }},
		{placement.InsufficientMemory, func() { shape.Memory = 3000 }},
		{placement.InsufficientResource, func() { shape.Others = amounts(2, 0) }},
		{placement.InsufficientGPUs, func() { shape.GPUs, shape.Share = 0, 99 }},
		{placement.InsufficientShare, func() { uses = nil }},
		{placement.Fits, func() {}},
	}
	last := placement.Fits
	for i, step := range steps {
		c := clusterOf(t, node)
		for at, holds := range uses {
			run(t, c, string(rune('a'+at)), "n", holds)
		}
		if got := c.FitOf("n", c.Request(shape)); got != step.want {
			t.Fatalf("step %d: the node %s, want: it %s", i, got, step.want)
		}
		if step.want != placement.Fits && step.want <= last {
			t.Errorf("%q is told after %q, but is declared before it", step.want, last)
		}
		last = step.want
		step.relax()
	}
}

// TestLastingReasonsHoldOnAnEmptyNode checks which reasons departures can remove.
func TestLastingReasonsHoldOnAnEmptyNode(t *testing.T) {
	t.Parallel()
	for name, test := range refusals() {
		if test.reason == placement.Fits || len(test.node().but(func(*placement.Node) {}).GPUs) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := test.node()
			for i := range n.GPUs {
				n.GPUs[i].Broken = false // it may be repaired
			}
			c := clusterOf(t, n)
			if got := c.FitOf("n", c.Request(test.shape)); (got != placement.Fits) != test.reason.Lasting() {
				t.Errorf("%s: lasting is %v, but an empty node %s", test.reason, test.reason.Lasting(), got)
			}
		})
	}
	if placement.Fits.Lasting() {
		t.Error("that it fits lasts")
	}
}

func TestReasonsCompleteASentence(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, reason := range placement.Reasons() {
		text := reason.String()
		if text == "" || seen[text] {
			t.Errorf("reason %d: %q is no text of its own", reason, text)
		}
		seen[text] = true
	}
	if got := placement.Reason(len(seen)).String(); got != "unknown reason" {
		t.Errorf("a reason that there is not is called %q", got)
	}
}

func TestCapacityIsHowManyPodsFit(t *testing.T) {
	t.Parallel()
	memory := func(shape placement.Shape, least int64) placement.Shape {
		shape.GPUMemory = least
		return shape
	}
	tests := map[string]struct {
		node  *nodeBuilder
		uses  []placement.Use
		shape placement.Shape
		want  int
	}{
		"slots limit what needs nothing":       {aNode("n", 0).size(0, 0, 7), nil, shapeOf{}, 7},
		"CPU limits":                           {aNode("n", 0).size(10, 99, 7), nil, shapeOf{CPU: 3, Memory: 1}, 3},
		"memory limits":                        {aNode("n", 0).size(99, 10, 7), nil, shapeOf{CPU: 1, Memory: 5}, 2},
		"GPUs limit":                           {aNode("n", 8), nil, whole(3), 2},
		"whole GPUs only":                      {aNode("n", 4), []placement.Use{use(1, 2)}, whole(1), 3},
		"shares count card by card":            {aNode("n", 2), nil, share(60), 2},
		"several shares of a card":             {aNode("n", 2), []placement.Use{use(50, 0)}, share(20), 7},
		"cards with enough memory only":        {aNode("n", 4).memories(40, 40, 40, 80), nil, memory(whole(1), 41), 1},
		"shares of cards with memory only":     {aNode("n", 4).memories(40, 40, 40, 80), nil, memory(share(50), 41), 2},
		"nothing of broken cards":              {aNode("n", 4).broken(0, 1), nil, share(50), 4},
		"nothing on a node that promised more": {aNode("n", 4), []placement.Use{{CPU: 99999}}, shapeOf{}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, test.node)
			for i, holds := range test.uses {
				run(t, c, string(rune('a'+i)), "n", holds)
			}
			if got := c.CapacityOf("n", c.Request(test.shape)); got != test.want {
				t.Errorf("%d times, want %d", got, test.want)
			}
			if got := c.Root().Room(c.Request(test.shape)); got != test.want {
				t.Errorf("room for %d, want %d", got, test.want)
			}
		})
	}
}
