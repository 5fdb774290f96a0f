// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzPods observes any Pods in any order, among them two of a gang, and forgets them. Each Pod that
// concerns the scheduler is known once, whatever its labels say, and nothing is left in the end.
func FuzzPods(f *testing.F) {
	add := func(pods ...*corev1.Pod) {
		text, err := json.Marshal(pods)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte(nil))
	}
	add(pod("c", in("train", 2, -1)), pod("d", in("train", 99999999, 3)))
	add(pod("c", func(p *corev1.Pod) { p.Labels["falldio.com/min-available"] = "x" }), pod("c", in("other", 1, 0)))
	f.Add([]byte(`[{"metadata":{"name":"c","labels":{"scheduling.x-k8s.io/pod-group":"g","falldio.com/index":"-9223372036854775808"},"annotations":{"scheduling.volcano.sh/group-name":"v","scheduling.volcano.sh/group-min-member":"0"}},"spec":{"schedulerName":"gpu-scheduler","schedulingGroup":{"podGroupName":"k"},"containers":[{"name":"a","resources":{"requests":{"falldio.com/gpu":"1"}}}]}}]`), []byte(nil))
	f.Fuzz(func(t *testing.T, text []byte, edits []byte) {
		text = fuzzjson.Edit(text, edits)
		var pods []*corev1.Pod
		if json.Unmarshal(text, &pods) != nil {
			return
		}
		fuzzlimit.Check(t, fuzzlimit.Limits{Bytes: 32 << 20, PerByte: 16 << 10, CPU: 5 * time.Second}, len(text), func() { checkRegistry(t, pods) })
	})
}

func checkRegistry(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	x := newFixture(t)
	known := map[types.UID]bool{}
	for _, own := range []*corev1.Pod{pod("a", in("train", 2, 0)), pod("b", in("train", 2, 1))} {
		x.Observe(own)
		known[own.UID] = true
	}
	for i, one := range pods {
		if one == nil || one.Namespace == "" && one.Name == "" {
			continue
		}
		one.UID, one.ResourceVersion = types.UID("any "+one.Name), string(rune('0'+i%10))
		if !x.Concerns(one) {
			continue
		}
		x.Observe(one)
		known[one.UID] = true
	}
	members := 0
	for _, group := range x.groups {
		members += len(group.members)
	}
	if members != len(x.members) || members > len(known) {
		t.Errorf("%d Pods are members of groups, %d are known, %d were observed", members, len(x.members), len(known))
	}
	for uid := range known {
		x.Forget(uid)
	}
	if len(x.groups)+len(x.members) > 0 {
		t.Errorf("%d groups and %d members are left", len(x.groups), len(x.members))
	}
}
