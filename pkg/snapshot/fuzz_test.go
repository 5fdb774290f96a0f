// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// snapping is what building a small cluster from any Node and Pod may take.
var snapping = fuzzlimit.Limits{Bytes: 32 << 20, PerByte: 16 << 10, CPU: 10 * time.Second} //nolint:gochecknoglobals // a constant

// FuzzNodeAndPod builds a cluster of any Node, one whose cards are known, and any Pod, bound to it or
// waiting. The engine takes what was read, gives no card twice, and what it is told in text (traits,
// selectors, assignments) means the same when it is read again.
func FuzzNodeAndPod(f *testing.F) {
	texts := func(objects ...any) (encoded [][]byte) {
		for _, object := range objects {
			text, err := json.Marshal(object)
			if err != nil {
				f.Fatal(err)
			}
			encoded = append(encoded, text)
		}
		return encoded
	}
	shared := pod("percent=30")
	shared.Annotations[inventory.AssignmentAnnotation] = `{"version":"v1","containers":{"c0":{"falldio.com/gpu-percent":["GPU-a"]}}}`
	pods := texts(pod("gpu=1,cpu=1"), shared, withSidecar(withInit(pod("gpu=1"), "gpu=2"), "gpu=1"), pod("nvidia.com/gpu=1"), pod("falldio.com/mig-1g.10gb=1"), pod("gpu=70"), pod("gpu=-1,cpu=-1,memory=-9E"), pod("gpu=1,percent=30", "cpu=9E,ephemeral-storage=9E"))
	nodes := texts(node(listing(twoCards)), node(labelled("falldio.com/gpu-memory", "-1")), node(offering("nvidia.com/gpu", "99999999999")), node(listing(`{"version":"v1","gpus":[{"uuid":"GPU-a","mig":true,"health":"Healthy","slices":[{"uuid":"MIG-a","profile":"1g.10gb"}]}]}`)))
	for i, text := range pods {
		f.Add(nodes[i%len(nodes)], text, i%2 == 0, []byte(nil))
	}
	f.Add(nodes[0], []byte(`{"spec":{"nodeSelector":{"a":"b"},"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"falldio.com/gpu-memory","operator":"Gt","values":["9223372036854775806"]},{"key":"x","operator":"In"}]},{}]},`+
		`"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":2147483647,"preference":{"matchExpressions":[{"key":"a","operator":"Exists"}]}}]}},"tolerations":[{"operator":"Exists","tolerationSeconds":1}],"containers":[{"name":"a"}]}}`), false, []byte(nil))
	f.Fuzz(func(t *testing.T, nodeText, podText []byte, bound bool, edits []byte) {
		nodeText, podText = fuzzjson.Edit(nodeText, edits[:len(edits)/2]), fuzzjson.Edit(podText, edits[len(edits)/2:])
		described, asking := &corev1.Node{}, &corev1.Pod{}
		if json.Unmarshal(nodeText, described) != nil || json.Unmarshal(podText, asking) != nil {
			return
		}
		described.Name, asking.UID, asking.Spec.NodeName = "n", "asking", ""
		fuzzlimit.Check(t, snapping, len(nodeText)+len(podText), func() { checkCluster(t, described, asking, bound) })
	})
}

func checkCluster(t *testing.T, described *corev1.Node, asking *corev1.Pod, bound bool) {
	t.Helper()
	known := node(listing(twoCards))
	known.Name = "known"
	view := NodeView{Levels: DefaultLevels()}
	shape, err := Shape(asking)
	if err == nil {
		view.Track(&shape)
	}
	var pods []*corev1.Pod
	if bound {
		asking.Spec.NodeName = "n"
		pods = append(pods, asking)
	}
	cluster := view.Cluster(packing.New(packing.Default()), []*corev1.Node{described, known}, pods)
	if _, readable := cluster.Cards["known"]; !readable {
		t.Fatalf("the node beside it is not read: %v", cluster.Problems)
	}
	for _, name := range []string{"n", "known"} {
		for i, card := range cluster.CardStates(name) {
			if card.Free < 0 || card.Free > placement.Card {
				t.Errorf("%d %% of card %d of node %s are free", card.Free, i, name)
			}
		}
	}
	checkGroups(asking)
	if err != nil {
		return
	}
	checkTexts(t, &shape)
	if !bound {
		place(t, cluster, asking, shape)
	}
}

// checkGroups reads what a Pod says about its gang; wrong text is an error that the Pod is told.
func checkGroups(asking *corev1.Pod) {
	_, _ = Gang(asking)
	if ref, found := PodGroupOf(asking); found {
		_, _ = GroupWithoutObject(asking, ref)
	}
	_, _ = AssignedSlices(asking), RequestedSlices(asking)
	_, _ = AvoidedNodes(asking), InGroup(asking)
}

// checkTexts fails the test if a selector or a preference is another one when it is read again.
func checkTexts(t *testing.T, shape *placement.Shape) {
	t.Helper()
	traits := []string{"", `{"name":"n","labels":{"a":"b","kubernetes.io/hostname":"n"},"taints":[{"key":"a","effect":"NoSchedule"}],"soft":[{"key":"b","effect":"PreferNoSchedule"}],"offers":["falldio.com/gpu"]}`}
	selector, err := SelectorOf(shape.Selector.Key())
	if err != nil {
		t.Fatalf("the selector %q can't be read again: %v", shape.Selector.Key(), err)
	}
	preference, err := PreferenceOf(shape.Preference.Key())
	if err != nil {
		t.Fatalf("the preference %q can't be read again: %v", shape.Preference.Key(), err)
	}
	for _, text := range traits {
		if got, want := selector.Admits(text), shape.Selector.Admits(text); got != want {
			t.Errorf("the selector %q says %v about %q, and %v when it was read again", shape.Selector.Key(), want, text, got)
		}
		got, want := preference.Score(text), shape.Preference.Score(text)
		if got != want || !(got >= 0) || got > maxScore {
			t.Errorf("the preference %q gives %q the score %v, and %v when it was read again", shape.Preference.Key(), text, want, got)
		}
	}
	without := WithoutCards(*shape)
	if without.GPUs != 0 && GPUResource(shape) != "" {
		t.Errorf("without its cards it still asks for %d", without.GPUs)
	}
}

// place places a Pod where the engine has room, and fails the test if its annotation says something
// else.
func place(t *testing.T, cluster *Cluster, asking *corev1.Pod, shape placement.Shape) {
	t.Helper()
	gang := &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: 1, Max: 1}}}
	plan, fits, err := cluster.Plan(gang)
	if err != nil || !fits {
		_, _ = cluster.Explain(gang)
		return
	}
	found := plan.Members[0].Place
	before := cluster.CardStates(found.Node)
	for _, gpu := range found.GPUs {
		if before[gpu].Free < found.Percent {
			t.Errorf("card %d of node %s is given away, of which %d %% are free", gpu, found.Node, before[gpu].Free)
		}
	}
	if err := cluster.Place(placement.Pod{Name: "asking", Node: found.Node, Use: found.Use}); err != nil {
		t.Fatal(err)
	}
	cards := cluster.Cards[found.Node]
	text, err := cards.Assignment(asking, found.GPUs)
	if err != nil {
		t.Fatal(err)
	}
	if text == "" {
		return
	}
	assigned := asking.DeepCopy()
	assigned.Annotations = map[string]string{inventory.AssignmentAnnotation: text}
	if read, known := cards.Assigned(assigned); !known || !cmp.Equal(read, found.GPUs) {
		t.Errorf("it gets the cards %v, the annotation %s says %v", found.GPUs, text, read)
	}
}

// FuzzPodGroup reads any object as a PodGroup of each API. What is understood needs at least one Pod,
// and what is not is said.
func FuzzPodGroup(f *testing.F) {
	f.Add([]byte(`{"spec":{"minMember":4}}`), uint8(1), []byte(nil))
	f.Add([]byte(`{"spec":{"minMember":-9223372036854775808}}`), uint8(2), []byte(nil))
	f.Add([]byte(`{"spec":{"schedulingPolicy":{"gang":{"minCount":2}},"schedulingConstraints":{"topology":[{"key":"topology.kubernetes.io/zone"}]}}}`), uint8(0), []byte(nil))
	f.Add([]byte(`{"spec":{"schedulingPolicy":{"basic":{}},"schedulingConstraints":{"topology":[1,2]}}}`), uint8(0), []byte(nil))
	apis := []GroupAPI{KubernetesGroups, VolcanoGroups, CoschedulingGroups, FormerCoschedulingGroups}
	f.Fuzz(func(t *testing.T, data []byte, api uint8, edits []byte) {
		data = fuzzjson.Edit(data, edits)
		object := map[string]any{}
		if json.Unmarshal(data, &object) != nil {
			return
		}
		toInt64(object)
		group := ReadPodGroup(apis[int(api)%len(apis)], object)
		labels, err := group.Labels(GroupRef{API: apis[int(api)%len(apis)], Namespace: "default", Name: "g"}, DefaultLevels())
		switch {
		case err != nil && labels != nil:
			t.Errorf("%+v beside the error %v", labels, err)
		case labels != nil && (labels.Min < 1 || labels.Required && labels.Level == ""):
			t.Errorf("a gang is %+v", labels)
		}
	})
}

// toInt64 turns numbers without a fraction into int64, as the decoder of the API machinery does.
func toInt64(object map[string]any) {
	for key, value := range object {
		switch value := value.(type) {
		case map[string]any:
			toInt64(value)
		case float64:
			if whole := int64(value); float64(whole) == value {
				object[key] = whole
			}
		}
	}
}

// FuzzLevels reads any text as levels of topology. What is accepted is written as it is read, and
// finds each level by its name.
func FuzzLevels(f *testing.F) {
	f.Add(DefaultLevels().String())
	f.Add(" leaf = a/b , ,zone=c")
	f.Add("a=b,a=c")
	f.Fuzz(func(t *testing.T, text string) {
		levels, err := ParseLevels(text)
		if err != nil {
			return
		}
		again, err := ParseLevels(levels.String())
		if diff := cmp.Diff(levels, again); err != nil || diff != "" {
			t.Errorf("%q was read as %q, and that as (-first +second) %v:\n%s", text, levels, err, diff)
		}
		for i, level := range levels {
			if number, err := levels.Number(level.Name); err != nil || number != i+1 {
				t.Errorf("level %s is number %d, not %d: %v", level.Name, number, i+1, err)
			}
		}
	})
}

// FuzzWords reads any names of resources: the engine, which does not know our API, calls slices what the API calls
// them.
func FuzzWords(f *testing.F) {
	f.Add("falldio.com/mig-1g.10gb", int64(2))
	f.Add("nvidia.com/mig-3g.40gb.me", int64(1))
	f.Fuzz(func(t *testing.T, resource string, count int64) {
		profile, isSlice := v1.SliceProfile(corev1.ResourceName(resource))
		if !isSlice {
			return
		}
		want := fmt.Sprintf("%d %s of profile %s", count, plural.Verb(count, "MIG slice", "MIG slices"), profile)
		if got := (placement.Amount{Resource: resource, Value: count}).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
