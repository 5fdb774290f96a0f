// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// pod returns a Pod with a container for each list of requests: "cpu=2,gpu=1".
func pod(containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "p", UID: "p", Labels: map[string]string{}, Annotations: map[string]string{},
	}}
	for i, text := range containers {
		p.Spec.Containers = append(p.Spec.Containers, container("c"+string(rune('0'+i)), text))
	}
	return p
}

func container(name, text string) corev1.Container {
	requests := corev1.ResourceList{}
	for part := range strings.SplitSeq(text, ",") {
		resourceName, amount, given := strings.Cut(part, "=")
		if !given {
			continue
		}
		full := map[string]corev1.ResourceName{"gpu": v1.ResourceGPU, "percent": v1.ResourceGPUPercent}[resourceName]
		if full == "" {
			full = corev1.ResourceName(resourceName)
		}
		requests[full] = resource.MustParse(amount)
	}
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests}}
}

func withInit(p *corev1.Pod, text string) *corev1.Pod {
	p.Spec.InitContainers = append(p.Spec.InitContainers, container("init", text))
	return p
}

func withSidecar(p *corev1.Pod, text string) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("sidecar", text)
	sidecar.RestartPolicy = &always
	p.Spec.InitContainers = append(p.Spec.InitContainers, sidecar)
	return p
}

func TestTheShapeOfAPod(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod  *corev1.Pod
		want placement.Shape
		err  string
	}{
		"nothing":                      {pod: pod(""), want: placement.Shape{}},
		"CPU and memory":               {pod: pod("cpu=1500m,memory=1Gi", "cpu=1,memory=1"), want: placement.Shape{CPU: 2500, Memory: 1025}},
		"whole GPUs":                   {pod: pod("gpu=2", "gpu=1"), want: placement.Shape{GPUs: 3}},
		"a share":                      {pod: pod("percent=30"), want: placement.Shape{Share: 30}},
		"shares of several containers": {pod: pod("percent=30", "percent=40"), want: placement.Shape{Share: 70}},
		"all percent of a GPU":         {pod: pod("percent=60", "percent=40"), want: placement.Shape{GPUs: 1}},
		"an init container needs more": {pod: withInit(pod("gpu=1"), "gpu=2"), want: placement.Shape{GPUs: 2}},
		"a sidecar needs it as well":   {pod: withSidecar(pod("gpu=1"), "gpu=1"), want: placement.Shape{GPUs: 2}},
		"the Pod's overhead": {
			pod: func() *corev1.Pod {
				p := pod("cpu=1")
				p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("1")}
				return p
			}(),
			want: placement.Shape{CPU: 2000},
		},
		"as NVIDIA names them":        {pod: pod("nvidia.com/gpu=2", "nvidia.com/gpu=1"), want: placement.Shape{GPUs: 3}},
		"whole GPUs by both names":    {pod: pod("gpu=1", "nvidia.com/gpu=1"), err: "asks for falldio.com/gpu and nvidia.com/gpu, which are the same cards: ask for all of them with one of the names"},
		"NVIDIA's GPUs and a share":   {pod: pod("nvidia.com/gpu=1", "percent=30"), err: "asks for nvidia.com/gpu and falldio.com/gpu-percent: a Pod gets whole GPUs or a share of one"},
		"too many by NVIDIA's name":   {pod: pod("nvidia.com/gpu=1025"), err: "at most 1024 of a node are used"},
		"whole GPUs and a share":      {pod: pod("gpu=1", "percent=30"), err: "a Pod gets whole GPUs or a share of one"},
		"more than all of a GPU":      {pod: pod("percent=101"), err: "a share is at most 100"},
		"more than any node has":      {pod: pod("gpu=1025"), err: "at most 1024 of a node are used"},
		"much more than any node has": {pod: pod("gpu=9223372036854775807"), err: "at most 1024 of a node are used"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Shape(test.pod)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got.Selector, got.Preference = nil, nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("shape (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsThatWantGPUs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"whole":                {pod("cpu=1", "gpu=1"), true},
		"a share":              {pod("percent=5"), true},
		"an init container's":  {withInit(pod(""), "gpu=1"), true},
		"none":                 {pod("cpu=1"), false},
		"none, and says so":    {pod("gpu=0,percent=0"), false},
		"as NVIDIA names them": {pod("nvidia.com/gpu=1"), true},
		"a device of somebody": {pod("amd.com/gpu=1"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := WantsGPUs(test.pod); got != test.want {
				t.Errorf("WantsGPUs is %t, want %t", got, test.want)
			}
		})
	}
}

func affine(p *corev1.Pod, terms ...corev1.NodeSelectorTerm) *corev1.Pod {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
	return p
}

func term(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func selecting(p *corev1.Pod, key, value string) *corev1.Pod {
	if p.Spec.NodeSelector == nil {
		p.Spec.NodeSelector = map[string]string{}
	}
	p.Spec.NodeSelector[key] = value
	return p
}

func tolerating(p *corev1.Pod, tolerations ...corev1.Toleration) *corev1.Pod {
	p.Spec.Tolerations = append(p.Spec.Tolerations, tolerations...)
	return p
}

func TestWhatTheEngineKnowsByItselfIsNoSelector(t *testing.T) {
	t.Parallel()
	memory := term(v1.LabelGPUMemory, corev1.NodeSelectorOpGt, "40000")
	tests := map[string]struct {
		pod  *corev1.Pod
		want placement.Shape
		keys []string
	}{
		"the model":                     {selecting(pod("gpu=1"), v1.LabelGPUModel, "A100"), placement.Shape{GPUs: 1, Models: []string{"A100"}}, nil},
		"the model, of a Pod without":   {selecting(pod("cpu=1"), v1.LabelGPUModel, "A100"), placement.Shape{CPU: 1000}, []string{v1.LabelGPUModel}},
		"the pool":                      {selecting(pod("cpu=1"), v1.LabelNodePool, "blue"), placement.Shape{CPU: 1000, Pool: "blue"}, nil},
		"the GPUs' memory":              {affine(pod("gpu=1"), memory), placement.Shape{GPUs: 1, GPUMemory: 40001}, nil},
		"the GPUs' memory, of one term": {affine(pod("gpu=1"), memory, term("disk", corev1.NodeSelectorOpExists)), placement.Shape{GPUs: 1}, []string{"disk", v1.LabelGPUMemory}},
		"another label":                 {selecting(pod("gpu=1"), "disk", "ssd"), placement.Shape{GPUs: 1}, []string{"disk"}},
		"the memory and more": {
			affine(pod("gpu=1"), corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				memory.MatchExpressions[0], {Key: "disk", Operator: corev1.NodeSelectorOpExists},
			}}), placement.Shape{GPUs: 1, GPUMemory: 40001}, []string{"disk"},
		},
		"a memory that makes no sense": {affine(pod("gpu=1"), term(v1.LabelGPUMemory, corev1.NodeSelectorOpGt, "much")), placement.Shape{GPUs: 1}, []string{v1.LabelGPUMemory}},
		"a field": {
			affine(pod("gpu=1"), corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}},
			}}), placement.Shape{GPUs: 1, Nodes: []placement.NodeRule{{Names: []string{"n"}}}}, nil,
		},
		"the hostname": {
			selecting(pod("gpu=1"), corev1.LabelHostname, "h"),
			placement.Shape{GPUs: 1, Nodes: []placement.NodeRule{{Hostnames: true, Names: []string{"h"}}}}, nil,
		},
		"hostnames, not wanted": {
			affine(pod("gpu=1"), term(corev1.LabelHostname, corev1.NodeSelectorOpNotIn, "g", "h")),
			placement.Shape{GPUs: 1, Nodes: []placement.NodeRule{{Hostnames: true, Except: true, Names: []string{"g", "h"}}}}, nil,
		},
		"hostnames in several terms": {
			affine(pod("gpu=1"), term(corev1.LabelHostname, corev1.NodeSelectorOpIn, "g"), term(corev1.LabelHostname, corev1.NodeSelectorOpIn, "h")),
			placement.Shape{GPUs: 1, Nodes: []placement.NodeRule{{Hostnames: true, Names: []string{"g", "h"}}}}, nil,
		},
		"hostnames in several terms, and more": {
			affine(pod("gpu=1"), term(corev1.LabelHostname, corev1.NodeSelectorOpIn, "g"), term("disk", corev1.NodeSelectorOpExists)),
			placement.Shape{GPUs: 1}, []string{"disk", corev1.LabelHostname},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := test.pod.DeepCopy()
			got, err := Shape(test.pod)
			if err != nil {
				t.Fatal(err)
			}
			selector, _ := got.Selector.(*Selector)
			if diff := cmp.Diff(test.keys, selector.keys); diff != "" {
				t.Errorf("labels that it looks at (-want +got):\n%s", diff)
			}
			got.Selector, got.Preference = nil, nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("shape (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.pod); diff != "" {
				t.Errorf("the Pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestASelectorAdmitsNodesAsKubernetesDoes(t *testing.T) {
	t.Parallel()
	taint := corev1.Taint{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	ssd := func(n *corev1.Node) { n.Labels["disk"] = "ssd" }
	dedicated := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint} }
	named := func(names ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: names}}}
	}
	both := func(a, b corev1.NodeSelectorTerm) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: append(a.MatchExpressions, b.MatchExpressions...)}
	}
	const host = corev1.LabelHostname
	tests := map[string]struct {
		pod  *corev1.Pod
		node *corev1.Node
		want placement.Reason
	}{
		"a Pod that does not care":       {pod("gpu=1"), node(), placement.Fits},
		"the label is there":             {selecting(pod("gpu=1"), "disk", "ssd"), node(ssd), placement.Fits},
		"the label is missing":           {selecting(pod("gpu=1"), "disk", "ssd"), node(), placement.OtherLabels},
		"a label that must not be there": {affine(pod("gpu=1"), term("disk", corev1.NodeSelectorOpDoesNotExist)), node(ssd), placement.OtherLabels},
		"one of two terms":               {affine(pod("gpu=1"), term("x", corev1.NodeSelectorOpExists), term("disk", corev1.NodeSelectorOpIn, "hdd", "ssd")), node(ssd), placement.Fits},
		"an empty term matches nothing":  {affine(pod("gpu=1"), corev1.NodeSelectorTerm{}), node(), placement.OtherLabels},
		"the node's name":                {affine(pod("gpu=1"), named("n")), node(), placement.Fits},
		"another name":                   {affine(pod("gpu=1"), named("m")), node(), placement.OtherLabels},
		"the hostname":                   {selecting(pod("gpu=1"), host, "h"), node(labelled(host, "h")), placement.Fits},
		"a hostname that the node lacks": {selecting(pod("gpu=1"), host, "h"), node(), placement.OtherLabels},
		"a hostname that is empty":       {selecting(pod("gpu=1"), host, ""), node(), placement.OtherLabels},
		"one of two hostnames":           {affine(pod("gpu=1"), term(host, corev1.NodeSelectorOpIn, "g", "h")), node(labelled(host, "h")), placement.Fits},
		"none of two hostnames":          {affine(pod("gpu=1"), term(host, corev1.NodeSelectorOpIn, "f", "g")), node(labelled(host, "h")), placement.OtherLabels},
		"a hostname that is not wanted":  {affine(pod("gpu=1"), term(host, corev1.NodeSelectorOpNotIn, "h")), node(labelled(host, "h")), placement.OtherLabels},
		"another one that is not wanted": {affine(pod("gpu=1"), term(host, corev1.NodeSelectorOpNotIn, "g")), node(labelled(host, "h")), placement.Fits},
		"any hostname":                   {affine(pod("gpu=1"), term(host, corev1.NodeSelectorOpExists)), node(), placement.OtherLabels},
		"a name or a hostname":           {affine(pod("gpu=1"), named("m"), term(host, corev1.NodeSelectorOpIn, "h")), node(labelled(host, "h")), placement.Fits},
		"one of two terms of names":      {affine(pod("gpu=1"), named("m"), named("n")), node(), placement.Fits},
		"none of two terms of names":     {affine(pod("gpu=1"), named("m"), named("o")), node(), placement.OtherLabels},
		"the hostname, but no label": {
			affine(pod("gpu=1"), both(term(host, corev1.NodeSelectorOpIn, "h"), term("disk", corev1.NodeSelectorOpExists))),
			node(labelled(host, "h")), placement.OtherLabels,
		},
		"the hostname and the label": {
			affine(pod("gpu=1"), both(term(host, corev1.NodeSelectorOpIn, "h"), term("disk", corev1.NodeSelectorOpExists))),
			node(labelled(host, "h"), ssd), placement.Fits,
		},
		"a taint":                             {pod("gpu=1"), node(dedicated), placement.Tainted},
		"a taint that is tolerated":           {tolerating(pod("gpu=1"), corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}), node(dedicated), placement.Fits},
		"a taint tolerated for a time":        {tolerating(pod("gpu=1"), corev1.Toleration{Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64)}), node(dedicated), placement.Fits},
		"a toleration of another value":       {tolerating(pod("gpu=1"), corev1.Toleration{Key: "gpu", Value: "no"}), node(dedicated), placement.Tainted},
		"a toleration that only takes advice": {tolerating(pod("gpu=1"), corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectPreferNoSchedule}), node(dedicated), placement.Tainted},
		"labels that make no sense": {
			affine(pod("gpu=1"), term("disk", corev1.NodeSelectorOpGt, "x")), node(ssd), placement.OtherLabels,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shape, err := Shape(test.pod)
			if err != nil {
				t.Fatal(err)
			}
			view := NodeView{}
			view.Track(&shape)
			cluster := view.Cluster(packing.New(packing.Default()), []*corev1.Node{test.node}, nil)
			got, err := cluster.Fit(test.node.Name, cluster.Request(shape))
			if err != nil || got != test.want {
				t.Errorf("the node %v, error %v, want: it %v", got, err, test.want)
			}
		})
	}
}

func TestASelectorRefusesTraitsThatItCannotRead(t *testing.T) {
	t.Parallel()
	shape, err := Shape(selecting(pod("gpu=1"), "disk", "ssd"))
	if err != nil {
		t.Fatal(err)
	}
	if got := shape.Selector.Admits("{"); got != placement.OtherLabels {
		t.Errorf("it says %v", got)
	}
}

// The engine answers equal shapes only once.
func TestShapesThatMeanTheSameAreEqual(t *testing.T) {
	t.Parallel()
	a := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}
	b := corev1.Toleration{Key: "b", Value: "x", Effect: corev1.TaintEffectNoExecute}
	seconds := int64(300)
	later := b
	later.TolerationSeconds = &seconds
	advice := corev1.Toleration{Key: "c", Effect: corev1.TaintEffectPreferNoSchedule}
	tests := map[string]struct {
		one, other *corev1.Pod
		want       bool
	}{
		"tolerations in another order":       {tolerating(pod("gpu=1"), a, b), tolerating(pod("gpu=1"), b, a), true},
		"tolerations that matter later":      {tolerating(pod("gpu=1"), b), tolerating(pod("gpu=1"), later), true},
		"a toleration of advice":             {tolerating(pod("gpu=1"), b), tolerating(pod("gpu=1"), b, advice), false},
		"a preference":                       {pod("gpu=1"), preferring(pod("gpu=1"), 1, term("x", corev1.NodeSelectorOpExists)), false},
		"other tolerations":                  {tolerating(pod("gpu=1"), a), tolerating(pod("gpu=1"), b), false},
		"other labels":                       {selecting(pod("gpu=1"), "x", "y"), selecting(pod("gpu=1"), "x", "z"), false},
		"the pool by selector and by itself": {selecting(pod("gpu=1"), v1.LabelNodePool, "x"), selecting(pod("gpu=1"), v1.LabelNodePool, "x"), true},
		"an empty selector":                  {pod("gpu=1"), func() *corev1.Pod { p := pod("gpu=1"); p.Spec.NodeSelector = map[string]string{}; return p }(), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, errOne := Shape(test.one)
			other, errOther := Shape(test.other)
			if errOne != nil || errOther != nil {
				t.Fatal(errOne, errOther)
			}
			if got := one.Key() == other.Key(); got != test.want {
				t.Errorf("equal %t, want %t:\n%q\n%q", got, test.want, one.Key(), other.Key())
			}
		})
	}
}

func TestASelectorInWords(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]*corev1.Pod{
		"":                                 tolerating(pod("gpu=1"), corev1.Toleration{Key: "x"}),
		"on nodes selected by disk, speed": selecting(selecting(pod("gpu=1"), "speed", "1"), "disk", "ssd"),
	} {
		shape, err := Shape(p)
		if err != nil {
			t.Fatal(err)
		}
		if selector, _ := shape.Selector.(*Selector); selector.String() != want {
			t.Errorf("%q, want %q", selector.String(), want)
		}
	}
}
