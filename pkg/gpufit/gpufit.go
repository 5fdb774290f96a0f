// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpufit decides for the admission check gpu-fit of Kueue: whether the engine of package
// placement has places now for all Pods of a Workload for which quota is reserved, and on which
// nodes. Quota alone does not say so: the GPUs may be of the wrong nodes, or scattered. It is pure.
//
// A Workload that was told that it fits has no Pods yet. Until they arrive, its places are kept from
// the Workloads that ask after it.
package gpufit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/kueue"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Cluster is what there is.
type Cluster struct {
	Nodes []*corev1.Node
	// Pods are all that have a node and have not ended.
	Pods   []*corev1.Pod
	Levels snapshot.Levels
	Now    time.Time
}

// Answer is whether a Workload fits.
type Answer struct {
	Fits bool
	// Message says where, or why not.
	Message string
	// NodeSelector selects the topology domain that the Workload has to be in; empty if it does not
	// ask for one.
	NodeSelector map[string]string
}

// Answers returns the answers to the Workloads that ask, in order: what one of them takes, the next
// ones don't get. The arriving Workloads were told that they fit before, and their Pods come first.
func Answers(cluster Cluster, flavors kueue.Flavors, arriving, asking []*kueue.Workload) []Answer {
	requests := make([]*request, 0, len(arriving)+len(asking))
	for _, workload := range slices.Concat(arriving, asking) {
		requests = append(requests, newRequest(cluster.Levels, workload, flavors))
	}
	v := newView(cluster, requests)
	for _, one := range requests[:len(arriving)] {
		one.leaveOut(cluster.Pods, cluster.Levels)
		if one.err == nil && len(one.pods) > 0 {
			v.answer(one)
		}
	}
	answers := make([]Answer, 0, len(asking))
	for _, one := range requests[len(arriving):] {
		answers = append(answers, v.answer(one))
	}
	return answers
}

// request is the Pods of a Workload, as they will be.
type request struct {
	workload *kueue.Workload
	pods     []*corev1.Pod
	gang     *snapshot.Members[*corev1.Pod]
	// err is why the Pods can't be placed at all.
	err error
}

func newRequest(levels snapshot.Levels, workload *kueue.Workload, flavors kueue.Flavors) *request {
	r := &request{workload: workload}
	if r.pods, r.err = podsOf(workload, flavors); r.err == nil {
		r.gang, r.err = gangOf(levels, r.pods)
	}
	return r
}

// mostPods is how many Pods a Workload may have to get an answer: as many as a GPUTask. Kueue has no
// limit, and quota is none for Pods that ask for nothing.
const mostPods = 10_000

// podsOf returns the Pods that a Workload has quota for. They share what is equal.
func podsOf(workload *kueue.Workload, flavors kueue.Flavors) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for i := range workload.Spec.PodSets {
		set := &workload.Spec.PodSets[i]
		grant, err := workload.Grant(set.Name, flavors)
		if err != nil {
			return nil, err
		}
		if grant.Pods > mostPods-len(pods) {
			return nil, fmt.Errorf("they are more than %d, which is the most that the check answers for", mostPods)
		}
		equal := &corev1.Pod{ObjectMeta: *set.Template.ObjectMeta.DeepCopy(), Spec: *set.Template.Spec.DeepCopy()}
		equal.Namespace = workload.Namespace
		if err := grant.Apply(equal); err != nil {
			return nil, err
		}
		for index := range grant.Pods {
			pod := *equal
			pod.Name = fmt.Sprintf("%s-%s-%d", workload.Name, set.Name, index)
			pod.UID = types.UID("expected " + pod.Namespace + "/" + pod.Name)
			pods = append(pods, &pod)
		}
	}
	return pods, nil
}

// gangOf returns what the engine has to place: all Pods.
func gangOf(levels snapshot.Levels, pods []*corev1.Pod) (*snapshot.Members[*corev1.Pod], error) {
	shapes := make(map[*corev1.Pod]placement.Shape, len(pods))
	var labels *snapshot.GangLabels
	for _, pod := range pods {
		shape, err := snapshot.Shape(pod)
		if err != nil {
			return nil, err
		}
		shapes[pod] = shape
		if labels, err = snapshot.Gang(pod); err != nil {
			return nil, err
		}
	}
	gang := snapshot.NewMembers(pods, func(pod *corev1.Pod) placement.Shape { return shapes[pod] }, nil, len(pods))
	if labels != nil && labels.Level != "" {
		level, err := levels.Number(labels.Level)
		if err != nil {
			return nil, err
		}
		gang.Level, gang.Required = level, labels.Required
	}
	return gang, nil
}

// leaveOut drops as many Pods of each pod set as have a node already.
func (r *request) leaveOut(placed []*corev1.Pod, levels snapshot.Levels) {
	if r.err != nil {
		return
	}
	arrived := map[string]int{}
	for _, pod := range placed {
		if pod.Namespace == r.workload.Namespace && pod.Annotations[kueue.AnnotationWorkload] == r.workload.Name {
			arrived[pod.Labels[kueue.LabelPodSet]]++
		}
	}
	r.pods = slices.DeleteFunc(r.pods, func(pod *corev1.Pod) bool {
		set := pod.Labels[kueue.LabelPodSet]
		arrived[set]--
		return arrived[set] >= 0
	})
	r.gang, r.err = gangOf(levels, r.pods)
}

// view is the cluster as the engine sees it.
type view struct {
	*snapshot.Cluster
	levels snapshot.Levels
	nodes  map[string]*corev1.Node
}

func newView(cluster Cluster, requests []*request) *view {
	described := snapshot.NodeView{Levels: cluster.Levels}
	for _, one := range requests {
		if one.gang == nil {
			continue
		}
		for i := range one.gang.Roles {
			described.Track(&one.gang.Roles[i].Shape)
		}
	}
	v := &view{levels: cluster.Levels, nodes: make(map[string]*corev1.Node, len(cluster.Nodes))}
	nodes := make([]*corev1.Node, 0, len(cluster.Nodes))
	for _, node := range cluster.Nodes {
		v.nodes[node.Name] = node
		nodes = append(nodes, snapshot.TaintUnlessReady(node))
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	policy := packing.New(packing.Default())
	v.Cluster = described.Cluster(policy, nodes, sorted(cluster.Pods))
	for _, one := range requests {
		if one.gang != nil {
			for i := range one.gang.Roles {
				policy.Mix().Add(v.Request(one.gang.Roles[i].Shape))
			}
		}
	}
	policy.Refresh(v.Cluster.Cluster)
	v.keepReserved(cluster)
	return v
}

// sorted returns the Pods in a canonical order: cards that are not known are guessed in it.
func sorted(pods []*corev1.Pod) []*corev1.Pod {
	list := slices.Clone(pods)
	slices.SortFunc(list, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return list
}

// keepReserved occupies the places that are reserved for Pods that are being moved, as if they had
// come.
func (v *view) keepReserved(cluster Cluster) {
	onNode := map[string][]*corev1.Pod{}
	for _, pod := range cluster.Pods {
		onNode[pod.Spec.NodeName] = append(onNode[pod.Spec.NodeName], pod)
	}
	for _, node := range cluster.Nodes {
		list, err := reservation.Of(node)
		if err != nil {
			continue // gpu-scheduler ignores it, too
		}
		for i := range list {
			one, cards := &list[i], v.Cards[node.Name]
			taken := func(pod *corev1.Pod) bool { return one.TakenUpBy(pod, cards) }
			if one.Holds(cluster.Now) && !slices.ContainsFunc(onNode[node.Name], taken) {
				// The name is not the UID of any Pod.
				_ = v.Place(placement.Pod{Name: "kept " + one.Plan + " " + one.Pod, Node: node.Name, Use: one.Use(node.Name, cards, v.Cluster.Cluster)})
			}
		}
	}
}

// answer returns the answer to a request, which takes its places if it fits.
func (v *view) answer(r *request) Answer {
	if r.err != nil {
		return Answer{Message: "its Pods can't be placed: " + r.err.Error()}
	}
	if len(r.pods) == 0 {
		return Answer{Fits: true, Message: "it has no Pods"}
	}
	plan, fits, err := v.Plan(&r.gang.Gang)
	if err != nil {
		return Answer{Message: "its Pods can't be placed: " + err.Error()}
	}
	if !fits {
		return Answer{Message: "there is no place for all of its Pods now: " + v.why(r)}
	}
	pods, places := r.gang.Assign(plan)
	for i, pod := range pods {
		_ = v.Place(placement.Pod{Name: string(pod.UID), Node: places[i].Node, Use: places[i].Use}) // the engine has just offered it
	}
	return Answer{Fits: true, Message: "there is a place for all of its Pods now: " + describe(places), NodeSelector: v.domainOf(r, places)}
}

func (v *view) why(r *request) string {
	explanation, err := v.Explain(&r.gang.Gang)
	if err != nil || explanation == nil {
		return "the engine gives no reason"
	}
	return snapshot.PlainDomains(explanation.String())
}

// shownNodes limits how many nodes a message names.
const shownNodes = 8

// describe returns how many Pods go to which nodes.
func describe(places []placement.Place) string {
	count := map[string]int{}
	for i := range places {
		count[places[i].Node]++
	}
	names := slices.Sorted(maps.Keys(count))
	texts := make([]string, 0, min(len(names), shownNodes))
	for _, name := range names[:min(len(names), shownNodes)] {
		texts = append(texts, fmt.Sprintf("%d on %s", count[name], name))
	}
	text := strings.Join(texts, ", ")
	if rest := len(names) - shownNodes; rest > 0 {
		text += fmt.Sprintf(", and more on %d other nodes", rest)
	}
	return text
}

// domainOf returns the labels of the topology domain that a request has to be in and that its
// places are in.
func (v *view) domainOf(r *request, places []placement.Place) map[string]string {
	if !r.gang.Required || r.gang.Level == 0 || len(places) == 0 {
		return nil
	}
	labels := v.nodes[places[0].Node].Labels
	selector := map[string]string{}
	for _, level := range v.levels[:r.gang.Level] {
		if value := labels[level.NodeLabel]; value != "" {
			selector[level.NodeLabel] = value
		}
	}
	return selector
}
