// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// node returns a Node whose agent has labelled it with the health of its GPUs, unless that is empty.
func node(name, health string, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}}
	if health != "" {
		n.Labels = map[string]string{v1.LabelGPUHealth: health}
	}
	return n
}

// nodes returns so many Nodes, called prefix-00 and so on.
func nodes(count int, prefix, health string, taints ...corev1.Taint) []*corev1.Node {
	list := make([]*corev1.Node, 0, count)
	for i := range count {
		list = append(list, node(fmt.Sprintf("%s-%02d", prefix, i), health, taints...))
	}
	return list
}

func ours(health string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: v1.TaintGPUUnhealthy, Value: health, Effect: effect}
}

func noExecute(health string) corev1.Taint { return ours(health, corev1.TaintEffectNoExecute) }

func noSchedule(health string) corev1.Taint { return ours(health, corev1.TaintEffectNoSchedule) }

var reserved = corev1.Taint{Key: "team", Value: "vision", Effect: corev1.TaintEffectNoSchedule}

// policy is that of most tests: NoExecute on all nodes without a healthy GPU.
var policy = Policy{Effect: corev1.TaintEffectNoExecute, Max: intstr.FromString("100%")}

// describe returns the changes as "name: kind taint taint".
func describe(plan *Plan) []string {
	var list []string
	for i := range plan.Changes {
		change := &plan.Changes[i]
		words := []string{change.Node.Name + ":", string(change.Kind)}
		for j := range change.Taints {
			words = append(words, change.Taints[j].ToString())
		}
		list = append(list, strings.Join(words, " "))
	}
	return list
}

func names(nodes []*corev1.Node) string {
	list := make([]string, 0, len(nodes))
	for _, node := range nodes {
		list = append(list, node.Name)
	}
	return strings.Join(list, " ")
}

func TestTheTaintFollowsTheHealthOfTheGPUs(t *testing.T) {
	t.Parallel()
	degraded, off, preferred := policy, policy, policy
	degraded.Degraded, off.Effect, preferred.Effect = true, "", corev1.TaintEffectPreferNoSchedule
	const added = "n: Added falldio.com/gpu-unhealthy="
	const changed = "n: Changed falldio.com/gpu-unhealthy="
	for name, tc := range map[string]struct {
		policy Policy
		health string
		taints []corev1.Taint
		want   string // empty for no change
	}{
		"healthy GPUs need no taint":                             {policy, v1.GPUsHealthy, nil, ""},
		"no healthy GPU is left":                                 {policy, v1.GPUsUnhealthy, nil, added + "Unhealthy:NoExecute"},
		"some GPUs are healthy":                                  {policy, v1.GPUsDegraded, nil, ""},
		"some are not healthy, and that is enough":               {degraded, v1.GPUsDegraded, nil, added + "Degraded:NoExecute"},
		"none is healthy, and some not healthy is enough":        {degraded, v1.GPUsUnhealthy, nil, added + "Unhealthy:NoExecute"},
		"the effect is the chosen one":                           {preferred, v1.GPUsUnhealthy, nil, added + "Unhealthy:PreferNoSchedule"},
		"the taint is there":                                     {policy, v1.GPUsUnhealthy, []corev1.Taint{noExecute("Unhealthy")}, ""},
		"another effect is chosen now, a stricter one":           {policy, v1.GPUsUnhealthy, []corev1.Taint{noSchedule("Unhealthy")}, changed + "Unhealthy:NoExecute"},
		"another effect is chosen now, a milder one":             {preferred, v1.GPUsUnhealthy, []corev1.Taint{noSchedule("Unhealthy")}, changed + "Unhealthy:PreferNoSchedule"},
		"the last healthy GPU fails":                             {degraded, v1.GPUsUnhealthy, []corev1.Taint{noExecute("Degraded")}, changed + "Unhealthy:NoExecute"},
		"there are two of our taints":                            {policy, v1.GPUsUnhealthy, []corev1.Taint{noSchedule("Unhealthy"), noExecute("Unhealthy")}, changed + "Unhealthy:NoExecute"},
		"there are two of our taints, the first one right":       {policy, v1.GPUsUnhealthy, []corev1.Taint{noExecute("Unhealthy"), noSchedule("Unhealthy")}, changed + "Unhealthy:NoExecute"},
		"the GPUs are healthy again":                             {policy, v1.GPUsHealthy, []corev1.Taint{noExecute("Unhealthy")}, "n: Removed"},
		"one GPU is healthy again":                               {policy, v1.GPUsDegraded, []corev1.Taint{noExecute("Unhealthy")}, "n: Removed"},
		"one GPU is healthy again, which is not enough":          {degraded, v1.GPUsDegraded, []corev1.Taint{noExecute("Unhealthy")}, changed + "Degraded:NoExecute"},
		"the label is gone":                                      {policy, "", []corev1.Taint{noExecute("Unhealthy")}, ""},
		"the label has a value of a later version":               {policy, "Ailing", []corev1.Taint{noExecute("Unhealthy")}, ""},
		"a node without GPUs":                                    {policy, "", nil, ""},
		"switched off":                                           {off, v1.GPUsUnhealthy, []corev1.Taint{noExecute("Unhealthy")}, "n: Removed"},
		"switched off, and the label is gone":                    {off, "", []corev1.Taint{noExecute("Unhealthy")}, "n: Removed"},
		"switched off, and there is no taint":                    {off, v1.GPUsUnhealthy, []corev1.Taint{reserved}, ""},
		"other taints stay when ours is added":                   {policy, v1.GPUsUnhealthy, []corev1.Taint{reserved}, "n: Added team=vision:NoSchedule falldio.com/gpu-unhealthy=Unhealthy:NoExecute"},
		"other taints stay when ours is corrected":               {policy, v1.GPUsUnhealthy, []corev1.Taint{noExecute("Degraded"), reserved}, "n: Changed team=vision:NoSchedule falldio.com/gpu-unhealthy=Unhealthy:NoExecute"},
		"other taints stay when ours is removed":                 {policy, v1.GPUsHealthy, []corev1.Taint{noExecute("Degraded"), reserved}, "n: Removed team=vision:NoSchedule"},
		"a value that somebody has written by hand is corrected": {policy, v1.GPUsUnhealthy, []corev1.Taint{noExecute("by-hand")}, changed + "Unhealthy:NoExecute"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := Decide([]*corev1.Node{node("n", tc.health, tc.taints...)}, tc.policy, now)
			if got := strings.Join(describe(&plan), "; "); got != tc.want || len(plan.HeldBack) > 0 {
				t.Errorf("got %q, want %q, held back: %q", got, tc.want, names(plan.HeldBack))
			}
		})
	}
}

func TestOnlySoManyNodesAreTainted(t *testing.T) {
	t.Parallel()
	fifth := policy
	fifth.Max = intstr.FromString("20%")
	two := policy
	two.Max = intstr.FromInt32(2)
	degraded := two
	degraded.Degraded = true
	join := func(lists ...[]*corev1.Node) (all []*corev1.Node) {
		for _, list := range lists {
			all = append(all, list...)
		}
		return all
	}
	for name, tc := range map[string]struct {
		policy   Policy
		nodes    []*corev1.Node
		changes  []string // names and kinds
		heldBack string
	}{
		"a driver bug that marks all nodes": {
			fifth, nodes(10, "n", v1.GPUsUnhealthy), []string{"n-00 Added", "n-01 Added"},
			"n-02 n-03 n-04 n-05 n-06 n-07 n-08 n-09",
		},
		"one may have it in a small cluster": {fifth, nodes(3, "n", v1.GPUsUnhealthy), []string{"n-00 Added"}, "n-01 n-02"},
		"the percentage is rounded down":     {fifth, nodes(9, "n", v1.GPUsUnhealthy), []string{"n-00 Added"}, "n-01 n-02 n-03 n-04 n-05 n-06 n-07 n-08"},
		"nodes without GPUs don't count": {
			fifth, join(nodes(90, "cpu", ""), nodes(10, "n", v1.GPUsUnhealthy)), []string{"n-00 Added", "n-01 Added"},
			"n-02 n-03 n-04 n-05 n-06 n-07 n-08 n-09",
		},
		"healthy nodes with GPUs count": {
			fifth, join(nodes(9, "n", v1.GPUsHealthy), nodes(1, "o", v1.GPUsDegraded), nodes(2, "u", v1.GPUsUnhealthy)), []string{"u-00 Added", "u-01 Added"}, "",
		},
		"nodes that have it count": {
			two, join(nodes(1, "old", v1.GPUsUnhealthy, noExecute("Unhealthy")), nodes(2, "new", v1.GPUsUnhealthy)), []string{"new-00 Added"}, "new-01",
		},
		"a node that has it counts while its agent restarts": {
			two, join(nodes(2, "restarts", "", noExecute("Unhealthy")), nodes(1, "new", v1.GPUsUnhealthy)), nil, "new-00",
		},
		"a node that is healthy again counts until its taint is off": {
			two, join(nodes(2, "healed", v1.GPUsHealthy, noExecute("Unhealthy")), nodes(1, "new", v1.GPUsUnhealthy)),
			[]string{"healed-00 Removed", "healed-01 Removed"}, "new-00",
		},
		"more than may have it keep it": {
			two, join(nodes(4, "old", v1.GPUsUnhealthy, noExecute("Unhealthy")), nodes(1, "new", v1.GPUsUnhealthy)), nil, "new-00",
		},
		"nodes without any healthy GPU come first": {
			degraded, join(nodes(2, "a", v1.GPUsDegraded), nodes(2, "b", v1.GPUsUnhealthy)), []string{"b-00 Added", "b-01 Added"}, "a-00 a-01",
		},
		"a taint gets stricter only where one may be": {
			two, nodes(4, "n", v1.GPUsUnhealthy, noSchedule("Unhealthy")), []string{"n-00 Changed", "n-01 Changed"}, "n-02 n-03",
		},
		"a taint gets stricter before another one is added": {
			two, join(nodes(1, "a", v1.GPUsUnhealthy), nodes(2, "b", v1.GPUsUnhealthy, noSchedule("Unhealthy"))),
			[]string{"b-00 Changed", "b-01 Changed"}, "a-00",
		},
		"no taint gets stricter if too many are strict": {
			two, join(nodes(2, "a", v1.GPUsUnhealthy, noExecute("Unhealthy")), nodes(1, "b", v1.GPUsUnhealthy, noSchedule("Unhealthy"))), nil, "b-00",
		},
		"a value is corrected even if too many have the taint": {
			degraded, nodes(3, "n", v1.GPUsUnhealthy, noExecute("Degraded")), []string{"n-00 Changed", "n-01 Changed", "n-02 Changed"}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := Decide(tc.nodes, tc.policy, now)
			var changes []string
			for i := range plan.Changes {
				changes = append(changes, plan.Changes[i].Node.Name+" "+string(plan.Changes[i].Kind))
			}
			if diff := cmp.Diff(tc.changes, changes); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if got := names(plan.HeldBack); got != tc.heldBack {
				t.Errorf("held back: %q, want %q", got, tc.heldBack)
			}
		})
	}
}

func TestATaintSaysSinceWhenItHasItsEffect(t *testing.T) {
	t.Parallel()
	before, after := metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now)
	old := noExecute("Degraded")
	old.TimeAdded = &before
	for name, tc := range map[string]struct {
		effect corev1.TaintEffect
		want   metav1.Time
	}{
		"another value":  {corev1.TaintEffectNoExecute, before},
		"another effect": {corev1.TaintEffectNoSchedule, after},
	} {
		changed := policy
		changed.Effect = tc.effect
		plan := Decide([]*corev1.Node{node("n", v1.GPUsUnhealthy, old)}, changed, now)
		if got := plan.Changes[0].Taints[0].TimeAdded; !got.Equal(&tc.want) {
			t.Errorf("%s: since %v, want %v", name, got, tc.want)
		}
	}
}

func TestAPlanLeavesTheNodesInTheCacheAlone(t *testing.T) {
	t.Parallel()
	taints := make([]corev1.Taint, 2, 8) // with room for more, which an append would write to
	taints[0], taints[1] = noSchedule("Degraded"), reserved
	cached := node("n", v1.GPUsUnhealthy, taints...)
	cached.Spec.Taints = taints
	before := cached.DeepCopy()
	list := []*corev1.Node{cached, node("m", v1.GPUsHealthy)}
	Decide(list, policy, now)
	if diff := cmp.Diff(before, cached); diff != "" || list[0] != cached {
		t.Errorf("the Node has changed (-before +after):\n%s", diff)
	}
}

func TestChangesSayWhy(t *testing.T) {
	t.Parallel()
	degraded, off := policy, policy
	degraded.Degraded, off.Effect = true, ""
	for want, tc := range map[string]struct {
		policy Policy
		node   *corev1.Node
	}{
		"Added the taint falldio.com/gpu-unhealthy=Unhealthy:NoExecute: none of its GPUs is healthy":                      {policy, node("n", v1.GPUsUnhealthy)},
		"Added the taint falldio.com/gpu-unhealthy=Degraded:NoExecute: some of its GPUs are not healthy, or missing":      {degraded, node("n", v1.GPUsDegraded)},
		"Changed the taint to falldio.com/gpu-unhealthy=Unhealthy:NoExecute: none of its GPUs is healthy":                 {policy, node("n", v1.GPUsUnhealthy, noSchedule("Unhealthy"))},
		"Changed the taint to falldio.com/gpu-unhealthy=Degraded:NoExecute: some of its GPUs are not healthy, or missing": {degraded, node("n", v1.GPUsDegraded, noExecute("Unhealthy"))},
		"Removed the taint falldio.com/gpu-unhealthy: all of its GPUs are healthy":                                        {policy, node("n", v1.GPUsHealthy, noExecute("Unhealthy"))},
		"Removed the taint falldio.com/gpu-unhealthy: some of its GPUs are healthy":                                       {policy, node("n", v1.GPUsDegraded, noExecute("Unhealthy"))},
		"Removed the taint falldio.com/gpu-unhealthy: --taint-unhealthy-gpus is off":                                      {off, node("n", v1.GPUsUnhealthy, noExecute("Unhealthy"))},
	} {
		plan := Decide([]*corev1.Node{tc.node}, tc.policy, now)
		if len(plan.Changes) != 1 || plan.Changes[0].Message != want {
			t.Errorf("got %+v, want %q", plan.Changes, want)
		}
	}
	plan := Decide(nodes(12, "n", v1.GPUsUnhealthy), Policy{Effect: policy.Effect, Max: intstr.FromString("20%")}, now)
	if want := "Held back the taint falldio.com/gpu-unhealthy: at most 2 of 12 nodes with GPUs may have it (--taint-unhealthy-gpus-max)"; plan.WhyHeldBack() != want {
		t.Errorf("got %q, want %q", plan.WhyHeldBack(), want)
	}
}
