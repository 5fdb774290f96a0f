// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestWhichPodGroupAPodNames(t *testing.T) {
	t.Parallel()
	type said = map[string]string
	tests := map[string]struct {
		labels, annotations said
		group               *corev1.PodSchedulingGroup
		want                GroupRef
		inGroup             bool
	}{
		"none": {},
		"Kubernetes'": {
			group: &corev1.PodSchedulingGroup{PodGroupName: new("train")},
			want:  GroupRef{KubernetesGroups, "default", "train"}, inGroup: true,
		},
		"a scheduling group of a kind to come":  {group: &corev1.PodSchedulingGroup{}},
		"Volcano's":                             {annotations: said{"scheduling.volcano.sh/group-name": "train"}, want: GroupRef{VolcanoGroups, "default", "train"}, inGroup: true},
		"Volcano's by the former annotation":    {annotations: said{"scheduling.k8s.io/group-name": "train"}, want: GroupRef{VolcanoGroups, "default", "train"}, inGroup: true},
		"coscheduling's":                        {labels: said{"scheduling.x-k8s.io/pod-group": "train"}, want: GroupRef{CoschedulingGroups, "default", "train"}, inGroup: true},
		"coscheduling's by the former label":    {labels: said{"pod-group.scheduling.sigs.k8s.io": "train"}, want: GroupRef{FormerCoschedulingGroups, "default", "train"}, inGroup: true},
		"coscheduling's label as an annotation": {annotations: said{"scheduling.x-k8s.io/pod-group": "train"}},
		"a name without an object":              {labels: said{"pod-group.scheduling.sigs.k8s.io/name": "train"}, inGroup: true},
		"Kubernetes' comes before others'": {
			group: &corev1.PodSchedulingGroup{PodGroupName: new("train")}, annotations: said{"scheduling.k8s.io/group-name": "theirs"},
			want: GroupRef{KubernetesGroups, "default", "train"}, inGroup: true,
		},
		"our labels come before all": {
			group: &corev1.PodSchedulingGroup{PodGroupName: new("train")}, labels: said{v1.LabelPodGroup: "ours", v1.LabelMinAvailable: "2"}, inGroup: true,
		},
		"our labels come before all even if they are wrong": {
			group: &corev1.PodSchedulingGroup{PodGroupName: new("train")}, labels: said{v1.LabelMinAvailable: "2"}, inGroup: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pod("gpu=1")
			p.Labels, p.Annotations, p.Spec.SchedulingGroup = test.labels, test.annotations, test.group
			got, found := PodGroupOf(p)
			if got != test.want || found != (test.want.Name != "") {
				t.Errorf("PodGroup %+v, found %t, want %+v", got, found, test.want)
			}
			if got := InGroup(p); got != test.inGroup {
				t.Errorf("says something about a group: %t", got)
			}
			if labels, err := Gang(p); found && (labels != nil || err != nil) {
				t.Errorf("it specifies its gang itself: %+v, error %v", labels, err)
			}
		})
	}
}

func TestAGroupThatOnlyThePodsSpecify(t *testing.T) {
	t.Parallel()
	type said = map[string]string
	const name, minimum = "pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"
	want := &GangLabels{Name: "default/podgroup.scheduling.sigs.k8s.io/train", Min: 4}
	tests := map[string]struct {
		labels, annotations said
		want                *GangLabels
		err                 string
	}{
		"by labels":                         {labels: said{name: "train", minimum: "4"}, want: want},
		"by annotations":                    {annotations: said{name: "train", minimum: "4"}, want: want},
		"without a minimum it is no gang":   {labels: said{name: "train"}},
		"without a name it is no gang":      {labels: said{minimum: "4"}},
		"a minimum that is no number":       {labels: said{name: "train", minimum: "all"}, err: minimum + `: must be the number of Pods that start together, at least 1, is "all"`},
		"a minimum of none":                 {labels: said{name: "train", minimum: "0"}, err: "at least 1"},
		"with an object, the object counts": {labels: said{name: "train", minimum: "4", "scheduling.x-k8s.io/pod-group": "object"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pod("gpu=1")
			p.Labels, p.Annotations = test.labels, test.annotations
			got, err := Gang(p)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("error %v, labels (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestWhatAPodGroupSpecifies(t *testing.T) {
	t.Parallel()
	kubernetes, volcano, coscheduling := GroupRef{KubernetesGroups, "default", "train"}, GroupRef{VolcanoGroups, "default", "train"}, GroupRef{CoschedulingGroups, "default", "train"}
	tests := map[string]struct {
		ref  GroupRef
		spec string
		want *GangLabels
		err  string
	}{
		"a gang": {ref: kubernetes, spec: `{"schedulingPolicy":{"gang":{"minCount":3}}}`, want: &GangLabels{Name: "default/podgroup.scheduling.k8s.io/train", Min: 3}},
		"a gang in one rack": {
			ref: kubernetes, spec: `{"schedulingPolicy":{"gang":{"minCount":3}},"schedulingConstraints":{"topology":[{"key":"falldio.com/rack"}]}}`,
			want: &GangLabels{Name: "default/podgroup.scheduling.k8s.io/train", Min: 3, Level: "rack", Required: true},
		},
		"no gang":                   {ref: kubernetes, spec: `{"schedulingPolicy":{"basic":{}}}`},
		"no gang, without topology": {ref: kubernetes, spec: `{"schedulingPolicy":{"basic":{}},"schedulingConstraints":{}}`},
		"no minimum, but in one zone": {
			ref: kubernetes, spec: `{"schedulingPolicy":{"basic":{}},"schedulingConstraints":{"topology":[{"key":"topology.kubernetes.io/zone"}]}}`,
			want: &GangLabels{Name: "default/podgroup.scheduling.k8s.io/train", Min: 1, Level: "zone", Required: true},
		},
		"a gang of none":          {ref: kubernetes, spec: `{"schedulingPolicy":{"gang":{"minCount":0}}}`, err: "PodGroup train: spec.schedulingPolicy.gang.minCount: must be a number, at least 1"},
		"a gang without minimum":  {ref: kubernetes, spec: `{"schedulingPolicy":{"gang":{}}}`, err: "minCount"},
		"a minimum in words":      {ref: kubernetes, spec: `{"schedulingPolicy":{"gang":{"minCount":"all"}}}`, err: "minCount"},
		"no policy":               {ref: kubernetes, spec: `{}`, err: "spec.schedulingPolicy"},
		"a policy to come":        {ref: kubernetes, spec: `{"schedulingPolicy":{"swarm":{}}}`, err: "gpu-scheduler understands the policies gang and basic"},
		"a policy in words":       {ref: kubernetes, spec: `{"schedulingPolicy":"gang"}`, err: "must be an object"},
		"a topology of no level":  {ref: kubernetes, spec: `{"schedulingPolicy":{"basic":{}},"schedulingConstraints":{"topology":[{"key":"example.com/row"}]}}`, err: "PodGroup train: its topology key example.com/row is the label of no topology level; the levels are zone=topology.kubernetes.io/zone, rack="},
		"a topology without key":  {ref: kubernetes, spec: `{"schedulingPolicy":{"basic":{}},"schedulingConstraints":{"topology":[{}]}}`, err: "topology[0].key: is missing"},
		"two topologies":          {ref: kubernetes, spec: `{"schedulingPolicy":{"basic":{}},"schedulingConstraints":{"topology":[{"key":"a"},{"key":"b"}]}}`, err: "one constraint"},
		"a topology in words":     {ref: kubernetes, spec: `{"schedulingPolicy":{"basic":{}},"schedulingConstraints":{"topology":"rack"}}`, err: "must be a list"},
		"Volcano's":               {ref: volcano, spec: `{"minMember":3}`, want: &GangLabels{Name: "default/podgroup.scheduling.volcano.sh/train", Min: 3}},
		"coscheduling's":          {ref: coscheduling, spec: `{"minMember":3}`, want: &GangLabels{Name: "default/podgroup.scheduling.x-k8s.io/train", Min: 3}},
		"without minMember":       {ref: coscheduling, spec: `{}`, want: &GangLabels{Name: "default/podgroup.scheduling.x-k8s.io/train", Min: 1}},
		"minMember in words":      {ref: volcano, spec: `{"minMember":"all"}`, err: "PodGroup train: spec.minMember: must be a number"},
		"minMember of a fraction": {ref: volcano, spec: `{"minMember":1.5}`, err: "spec.minMember"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := map[string]any{}
			if err := json.Unmarshal([]byte(`{"spec":`+test.spec+`}`), &object); err != nil {
				t.Fatal(err)
			}
			got, err := ReadPodGroup(test.ref.API, object).Labels(test.ref, DefaultLevels())
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || got != nil {
					t.Errorf("labels %+v, error %v, want %q", got, err, test.err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("error %v, labels (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestGroupChanged(t *testing.T) {
	t.Parallel()
	before, same, other := pod("gpu=1"), pod("gpu=1"), pod("gpu=1")
	same.Labels = map[string]string{"app": "x"}
	other.Annotations = map[string]string{"scheduling.k8s.io/group-name": "train"}
	if GroupChanged(before, same) || !GroupChanged(before, other) {
		t.Error("a change is missed, or one is seen that is none")
	}
}

// BenchmarkInGroup: it is asked of every Pod in every scheduling cycle.
func BenchmarkInGroup(b *testing.B) {
	p := pod("gpu=1")
	p.Labels = map[string]string{"app": "x", "pod-template-hash": "y", "team": "z"}
	b.ReportAllocs()
	for b.Loop() {
		if InGroup(p) {
			b.Fatal("it is in none")
		}
	}
}
