// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Top is how the GPUs of a cluster are used.
type Top struct {
	// Leaves are the narrowest domains of the nodes, sorted by name, with their nodes.
	Leaves []Leaf `json:"leaves"`
	// Models are totals by model and pool.
	Models []Model `json:"models"`
	// Profiles are totals of MIG slices, by profile, model and pool.
	Profiles []Profile `json:"profiles,omitempty"`
	// Levels are the names of the levels of Largest in Shapes: the cluster, and those for
	// which any node has the label.
	Levels []string `json:"levels"`
	// Shapes is how many Pods of which shape there is room for.
	Shapes []ShapeRoom `json:"shapes"`
	// Metered is true if the utilisation of GPUs is known.
	Metered bool `json:"metered"`
	// Problems are objects of the cluster that could not be parsed.
	Problems []string `json:"problems,omitempty"`
}

// Leaf is a domain and its nodes.
type Leaf struct {
	Name  string    `json:"name"`
	Nodes []NodeUse `json:"nodes"`
	Sum   Sum       `json:"sum"`
}

// NodeUse is how the GPUs of a node are used.
type NodeUse struct {
	Name  string `json:"name"`
	Model string `json:"model,omitempty"`
	Pool  string `json:"pool,omitempty"`
	// Notice is why the node takes no Pods with GPUs; empty if it does.
	Notice string `json:"notice,omitempty"`
	GPUs   []Card `json:"gpus"`
	// Utilization is the mean of those of its GPUs for which it is known, 0 to 1.
	Utilization *float64 `json:"utilization,omitempty"`
}

// CardUse is how a GPU is used.
type CardUse string

// How a GPU is used. The first that applies counts.
const (
	CardUnhealthy CardUse = "Unhealthy"
	CardBusy      CardUse = "Busy"
	CardShared    CardUse = "Shared"
	CardReserved  CardUse = "Reserved"
	CardClosed    CardUse = "Closed"  // free, but it is cordoned, or its node takes no Pods
	CardDivided   CardUse = "Divided" // into MIG slices, of which each has its own use
	CardFree      CardUse = "Free"
)

// Card is one GPU.
type Card struct {
	Use CardUse `json:"use"`
	// Percent is how much of it is allocated.
	Percent int `json:"percent,omitempty"`
	// Utilization is how busy it is, 0 to 1.
	Utilization *float64 `json:"utilization,omitempty"`
	// Slices are its MIG slices, if it is divided.
	Slices []Slice `json:"slices,omitempty"`
}

// Sum counts GPUs by their use.
type Sum struct {
	Nodes    int `json:"nodes"`
	GPUs     int `json:"gpus"`
	Free     int `json:"free"`
	Closed   int `json:"closed,omitempty"`
	Shared   int `json:"shared,omitempty"`
	Busy     int `json:"busy"`
	Reserved int `json:"reserved,omitempty"`
	// Divided are the GPUs that are divided into MIG slices; Slices are these, FreeSlices those that nobody has.
	Divided     int      `json:"divided,omitempty"`
	Slices      int      `json:"slices,omitempty"`
	FreeSlices  int      `json:"freeSlices,omitempty"`
	Unhealthy   int      `json:"unhealthy,omitempty"`
	Utilization *float64 `json:"utilization,omitempty"`

	metered int
	load    float64
}

// Model is how the GPUs of a model in a pool are used.
type Model struct {
	Model string `json:"model"`
	Pool  string `json:"pool,omitempty"`
	Sum
}

// ShapeRoom is how much room there is for Pods of a shape.
type ShapeRoom struct {
	Shape string `json:"shape"`
	// Tasks is how many unfinished tasks have Pods of this shape.
	Tasks int `json:"tasks,omitempty"`
	// Pods is how many of them fit, Stranded how much of the free GPUs they can't use,
	// in percent of a GPU.
	Pods     int `json:"pods"`
	Stranded int `json:"strandedPercent"`
	// Oversized is true if none would fit even if nothing ran.
	Oversized bool `json:"oversized,omitempty"`
	// Largest is, by level, the largest gang that one domain has room for.
	Largest []Largest `json:"largest"`
}

// Largest is the largest gang that one domain has room for.
type Largest struct {
	Domain string `json:"domain,omitempty"`
	Pods   int    `json:"pods"`
}

// Utilization is how busy GPUs are, 0 to 1, by their UUIDs.
type Utilization map[string]float64

// NoLeaf is the domain of nodes without topology labels.
const NoLeaf = "(no topology label)"

// Top returns how the GPUs of the cluster are used.
func (v *View) Top(load Utilization) *Top {
	top := &Top{Metered: len(load) > 0}
	reserved := v.reservedFor()
	leaves, models := leavesByName{}, map[[2]string]*Model{}
	for _, node := range v.Nodes {
		use := v.nodeUse(node, reserved[node.Name], load)
		if len(use.GPUs) == 0 {
			continue
		}
		leaves.add(v.leafOf(node), &use)
		key := [2]string{use.Model, use.Pool}
		if models[key] == nil {
			models[key] = &Model{Model: use.Model, Pool: use.Pool}
		}
		models[key].add(&use)
	}
	top.Leaves = leaves.sorted()
	for _, model := range models {
		top.Models = append(top.Models, *model)
	}
	slices.SortFunc(top.Models, func(a, b Model) int {
		return cmp.Or(-cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Pool, b.Pool))
	})
	top.Profiles = profiles(top.Leaves)
	v.addShapes(top)
	for _, problem := range v.Problems {
		top.Problems = append(top.Problems, problem.Error())
	}
	return top
}

// leavesByName groups nodes.
type leavesByName map[string]*Leaf

func (l leavesByName) add(name string, node *NodeUse) {
	if l[name] == nil {
		l[name] = &Leaf{Name: name}
	}
	l[name].Nodes = append(l[name].Nodes, *node)
	l[name].Sum.add(node)
}

func (l leavesByName) sorted() (list []Leaf) {
	for _, leaf := range slices.SortedFunc(maps.Values(l), func(a, b *Leaf) int { return compareNatural(a.Name, b.Name) }) {
		slices.SortFunc(leaf.Nodes, func(a, b NodeUse) int { return compareNatural(a.Name, b.Name) })
		list = append(list, *leaf)
	}
	return list
}

// GroupedBy returns the nodes in other groups than their leaves.
func (t *Top) GroupedBy(name func(*NodeUse) string) []Leaf {
	groups := leavesByName{}
	for i := range t.Leaves {
		for j := range t.Leaves[i].Nodes {
			node := &t.Leaves[i].Nodes[j]
			groups.add(name(node), node)
		}
	}
	return groups.sorted()
}

// nodeUse returns how each GPU of a node is used.
func (v *View) nodeUse(node *corev1.Node, reserved map[int]string, load Utilization) NodeUse {
	use := NodeUse{Name: node.Name, Model: snapshot.Model(node), Pool: node.Labels[v1.LabelNodePool], Notice: v.closed(node)}
	for i, state := range v.Cluster.CardStates(node.Name) {
		cordoned := v.Cards[node.Name].Cordoned(i)
		state.Broken = state.Broken && !cordoned && !v.Cards[node.Name].Paused() // the notice says it
		card := cardUse(state, reserved[i] != "", cordoned || use.Notice != "")
		if names := v.Cards[node.Name].Names([]int{i}); len(names) == 1 {
			card.meter(load, names[0])
		}
		use.GPUs = append(use.GPUs, card)
	}
	use.GPUs = v.withDivided(node.Name, use.GPUs, use.Notice != "")
	for _, gpu := range v.Cards[node.Name].Divided() {
		use.GPUs[gpu.Number].meter(load, gpu.UUID)
	}
	use.meter()
	return use
}

// meter sets how busy a GPU is, if that is known.
func (c *Card) meter(load Utilization, uuid string) {
	if value, known := load[uuid]; known {
		c.Utilization = &value
	}
}

// meter sets the mean of how busy the node's GPUs are.
func (u *NodeUse) meter() {
	sum, metered := 0.0, 0
	for i := range u.GPUs {
		if value := u.GPUs[i].Utilization; value != nil {
			sum, metered = sum+*value, metered+1
		}
	}
	if metered > 0 {
		u.Utilization = new(sum / float64(metered))
	}
}

// closed returns why a node takes no Pods with GPUs but those that tolerate it; empty if it takes others.
func (v *View) closed(node *corev1.Node) string {
	if why := snapshot.Closed(node); why != "" {
		return why
	}
	return v.paused(node)
}

// paused returns why a node offers no GPUs for now; empty if it does.
func (v *View) paused(node *corev1.Node) string {
	if !v.Cards[node.Name].Paused() {
		return ""
	}
	if cards := v.Cards[node.Name]; len(cards.Divided()) > 0 && cards.Anonymous() {
		return "not offering MIG slices"
	}
	return "not offering GPUs"
}

func cardUse(state placement.CardState, reserved, closed bool) Card {
	card := Card{Percent: max(0, placement.Card-state.Free)}
	switch {
	case state.Broken:
		card.Use = CardUnhealthy
	case state.Free <= 0:
		card.Use = CardBusy
	case state.Free < placement.Card:
		card.Use = CardShared
	case reserved:
		card.Use = CardReserved
	case closed:
		card.Use = CardClosed
	default:
		card.Use = CardFree
	}
	return card
}

// Total counts the GPUs of all nodes.
func (t *Top) Total() Sum {
	var total Sum
	for i := range t.Leaves {
		for j := range t.Leaves[i].Nodes {
			total.add(&t.Leaves[i].Nodes[j])
		}
	}
	return total
}

// Sum counts the GPUs of the node by their use.
func (u *NodeUse) Sum() (sum Sum) {
	sum.add(u)
	return sum
}

func (s *Sum) add(node *NodeUse) {
	s.Nodes++
	for _, card := range node.GPUs {
		s.GPUs++
		switch card.Use {
		case CardUnhealthy:
			s.Unhealthy++
		case CardBusy:
			s.Busy++
		case CardShared:
			s.Shared++
		case CardReserved:
			s.Reserved++
		case CardClosed:
			s.Closed++
		case CardDivided:
			s.Divided++
			s.Slices += len(card.Slices)
			for _, slice := range card.Slices {
				if slice.Use == CardFree {
					s.FreeSlices++
				}
			}
		case CardFree:
			s.Free++
		}
		if card.Utilization != nil {
			s.metered, s.load = s.metered+1, s.load+*card.Utilization
		}
	}
	if s.metered > 0 {
		s.Utilization = new(s.load / float64(s.metered))
	}
}

// leafOf returns the narrowest domain that a node is in, with the wider ones before it.
func (v *View) leafOf(node *corev1.Node) string {
	var path []string
	for _, level := range v.Levels {
		if name := node.Labels[level.NodeLabel]; name != "" {
			path = append(path, name)
		}
	}
	if len(path) == 0 {
		return NoLeaf
	}
	return strings.Join(path, "/")
}

// shownShapes limits the shapes of tasks to the most frequent ones.
const shownShapes = 6

// commonSizes are the numbers of GPUs that Pods ask for most often.
func commonSizes() []int { return []int{1, 2, 4, 8} }

// CommonShapes returns the room for Pods with 1, 2, 4 and 8 GPUs.
func (t *Top) CommonShapes() []ShapeRoom { return t.Shapes[max(0, len(t.Shapes)-len(commonSizes())):] }

// addShapes measures the room for shapes: those of tasks, and common ones.
func (v *View) addShapes(top *Top) {
	type counted struct {
		shape placement.Shape
		tasks int
	}
	byKey := map[string]*counted{}
	for i := range v.Tasks {
		task := &v.Tasks[i]
		for _, shape := range v.shapesOf(task.GPUTask) {
			if byKey[shape.Key()] == nil {
				byKey[shape.Key()] = &counted{shape: shape}
			}
			byKey[shape.Key()].tasks++
		}
	}
	list := slices.SortedFunc(maps.Values(byKey), func(a, b *counted) int {
		return cmp.Or(-cmp.Compare(a.tasks, b.tasks), -cmp.Compare(snapshot.GPUPercent(&a.shape), snapshot.GPUPercent(&b.shape)), cmp.Compare(a.shape.Key(), b.shape.Key()))
	})
	list = list[:min(len(list), shownShapes)]
	levels := v.labelledLevels()
	for _, level := range levels {
		if level == 0 {
			top.Levels = append(top.Levels, "cluster")
		} else {
			top.Levels = append(top.Levels, v.Levels[level-1].Name)
		}
	}
	for _, size := range commonSizes() {
		list = append(list, &counted{shape: placement.Shape{GPUs: size}})
	}
	v.Cluster.Try(func() bool {
		for i := range v.pending {
			v.occupy(&v.pending[i])
		}
		for _, wanted := range list {
			top.Shapes = append(top.Shapes, v.roomFor(wanted.shape, wanted.tasks, levels))
		}
		return false
	})
}

func (v *View) roomFor(shape placement.Shape, tasks int, levels []int) ShapeRoom {
	room := v.Cluster.Capacity(shape, len(v.Levels))
	if shape.Percent() == 0 {
		room.Stranded = 0 // whole GPUs are not for it
	}
	shown := ShapeRoom{
		Shape: shape.String(), Tasks: tasks, Pods: room.Pods, Stranded: room.Stranded,
		Oversized: room.Pods == 0 && v.isOversized(shape),
	}
	for _, level := range levels {
		domain := snapshot.PlainDomains(room.Largest[level].Domain)
		if domain == placement.Unnamed {
			domain = Unnamed
		}
		shown.Largest = append(shown.Largest, Largest{Domain: domain, Pods: room.Largest[level].Pods})
	}
	return shown
}

// isOversized reports whether no node has as many GPUs, or MIG slices, as a Pod asks for.
func (v *View) isOversized(shape placement.Shape) bool {
	request := v.Cluster.Request(shape)
	if shape.Percent() == 0 {
		return !v.Cluster.Ever(request)
	}
	return !slices.ContainsFunc(v.Nodes, func(node *corev1.Node) bool {
		return len(v.Cluster.CardStates(node.Name)) >= shape.GPUs && v.isEligible(node.Name, request)
	})
}

// labelledLevels returns 0, the cluster, and the levels for which any node has the label.
func (v *View) labelledLevels() []int {
	levels := []int{0}
	for i, level := range v.Levels {
		if slices.ContainsFunc(v.Nodes, func(node *corev1.Node) bool { return node.Labels[level.NodeLabel] != "" }) {
			levels = append(levels, i+1)
		}
	}
	return levels
}

// Unnamed is the name of the domain of nodes that have the label of a narrower level but
// not of this one.
const Unnamed = "nodes without the label"

// shapesOf returns the shapes of the Pods of an unfinished task, one for each role whose Pods need
// GPUs.
func (v *View) shapesOf(task *v1.GPUTask) (shapes []placement.Shape) {
	if gputask.IsFinished(task) || task.DeletionTimestamp != nil {
		return nil
	}
	for _, role := range gputask.Roles(task) {
		defaults := gputask.PodDefaults{Image: "any"}
		if role.GPUProfile != "" {
			defaults.GPUResource = GPUResource(v.Nodes) // it decides under which name slices are counted
		}
		if shape, ok := shapeOf(task, role.First, defaults); ok {
			shapes = append(shapes, shape)
		}
	}
	return shapes
}

// shapeOf returns the shape of a task's Pod; false if it needs no GPU.
func shapeOf(task *v1.GPUTask, index int, defaults gputask.PodDefaults) (placement.Shape, bool) {
	pod, err := gputask.NewPod(task, index, 0, defaults)
	if err != nil {
		return placement.Shape{}, false
	}
	shape, err := snapshot.Shape(pod)
	shape.Others = onlySlices(shape.Others) // of the others, the view tracks only those that Pods request
	return shape, err == nil && snapshot.GPUPercent(&shape) > 0
}

// compareNatural sorts node-2 before node-10.
func compareNatural(a, b string) int {
	return cmp.Or(cmp.Compare(stem(a), stem(b)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// stem returns a name without its trailing digits.
func stem(name string) string { return strings.TrimRight(name, "0123456789") }
