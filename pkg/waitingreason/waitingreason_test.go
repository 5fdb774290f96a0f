// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package waitingreason_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	. "falldio.github.io/gpu-controller/pkg/waitingreason"
)

var noon = metav1.NewTime(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC).Local())

func aReason() *v1.WaitingReason {
	return &v1.WaitingReason{
		Reason: v1.WaitsForGPUs, Needs: "needs 4 GPUs", Message: "2 nodes have too few free GPUs", Time: noon,
		Nodes: []v1.WaitingNodes{{Count: 2, Cause: "InsufficientGPUs", Message: "have too few free GPUs"}},
		Remedies: []v1.WaitingRemedy{
			{Kind: "FreeGPUs", Value: "2", Message: "with 2 more free GPUs", Nodes: []string{"a"}},
			{Kind: "FewerGPUs", Value: "2", Message: "with 2 GPUs for each Pod"},
		},
	}
}

const sentence = "2 nodes have too few free GPUs; needs 4 GPUs; it would start with 2 more free GPUs, or with 2 GPUs for each Pod"

// waiting returns a Pod about which a scheduler has written a condition and, if it is not nil, a reason.
func waiting(message string, reason *v1.WaitingReason, options ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message, LastTransitionTime: noon,
	}}
	if reason != nil {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.AnnotationWaitingReason, Encode(reason))
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

func framed(text string) string {
	return "0/4 nodes are available: " + text + ". preemption: its preemption policy is Never"
}

func words(text string) *v1.WaitingReason { return &v1.WaitingReason{Message: text, Time: noon} }

func TestTheReasonOfWaitingPods(t *testing.T) {
	t.Parallel()
	later := aReason()
	later.Time = metav1.NewTime(noon.Add(time.Minute))
	tests := map[string]struct {
		pods []*corev1.Pod
		want *v1.WaitingReason
	}{
		"a value, if the condition says the same": {[]*corev1.Pod{waiting(framed(sentence), aReason())}, aReason()},
		"the newest one":            {[]*corev1.Pod{waiting(sentence, aReason()), waiting(sentence, later), waiting(sentence, aReason())}, later},
		"a value rather than words": {[]*corev1.Pod{waiting("other words", nil), waiting(framed(sentence), aReason())}, aReason()},
		"what the condition says, if it is not what the value says": {
			[]*corev1.Pod{waiting(framed("1 node has too few free GPUs; needs 4 GPUs"), aReason())}, words("1 node has too few free GPUs; needs 4 GPUs"),
		},
		"the whole sentence without a value": {[]*corev1.Pod{waiting(framed(sentence), nil)}, words(sentence)},
		"kube-scheduler's sentence keeps the number of nodes with its reasons": {
			[]*corev1.Pod{waiting("0/7 nodes are available: 7 Insufficient falldio.com/gpu. no new claims to deallocate, preemption: none", nil)},
			words("0/7 nodes are available: 7 Insufficient falldio.com/gpu"),
		},
		"in plain words, if kube-scheduler says that a volume does not exist": {
			[]*corev1.Pod{waiting(`0/7 nodes are available: persistentvolumeclaim "data" not found. preemption: none`, nil)},
			&v1.WaitingReason{
				Reason: v1.WaitsForExternal, Message: `PersistentVolumeClaim "data" does not exist`, Time: noon,
				Nodes: []v1.WaitingNodes{{Cause: "VolumeBinding", Message: `persistentvolumeclaim "data" not found`}},
			},
		},
		"the claims of a Pod about which nothing was said": {
			[]*corev1.Pod{waiting("", nil, func(p *corev1.Pod) {
				p.Status.Conditions, p.Spec.ResourceClaims = nil, []corev1.PodResourceClaim{{ResourceClaimName: new("nic")}, {ResourceClaimTemplateName: new("gpus")}}
			})},
			&v1.WaitingReason{Reason: v1.WaitsForClaims, Message: `no scheduler has tried it yet: ResourceClaim "nic" and a ResourceClaim of template "gpus" have to exist first`},
		},
		"nothing of a Pod with a node": {[]*corev1.Pod{waiting(sentence, aReason(), func(p *corev1.Pod) { p.Spec.NodeName = "n" })}, nil},
		"nothing if the scheduler has said nothing": {
			[]*corev1.Pod{waiting("", aReason(), func(p *corev1.Pod) { p.Status.Conditions = nil })}, nil,
		},
		"the gates that hold a Pod back": {
			[]*corev1.Pod{waiting("Scheduling is blocked due to non-empty scheduling gates", nil, func(p *corev1.Pod) {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/a"}, {Name: "example.com/b"}}
				p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
			})}, &v1.WaitingReason{Reason: v1.WaitsForExternal, Message: "scheduling gates have to be removed first: example.com/a, example.com/b", Time: noon},
		},
		"the condition's words if the value is not JSON": {
			[]*corev1.Pod{waiting(sentence, nil, func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationWaitingReason, "soon") })}, words(sentence),
		},
		"the condition's words if the value is empty, as on Pods that had a node": {
			[]*corev1.Pod{waiting(sentence, nil, func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationWaitingReason, "") })}, words(sentence),
		},
		"nothing of no Pods": {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Of(test.pods...)); diff != "" {
				t.Errorf("reason (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAReasonInWords(t *testing.T) {
	t.Parallel()
	if got := Sentence(aReason()); got != sentence {
		t.Errorf("sentence %q", got)
	}
	if got := Sentence(&v1.WaitingReason{Message: "queue a is full"}); got != "queue a is full" {
		t.Errorf("sentence %q", got)
	}
	if got := Cause(aReason()) + "|" + Help(aReason()); got != strings.Replace(sentence, "; it", "|it", 1) {
		t.Errorf("cause and help %q", got)
	}
}

func TestAReasonThatIsTooLongIsNotPublished(t *testing.T) {
	t.Parallel()
	reason := aReason()
	reason.Message = strings.Repeat("x", 9000)
	if got := Encode(reason); got != "" {
		t.Errorf("it has %d bytes", len(got))
	}
}

func TestReasonsAreTheSameWheneverTheyWereFound(t *testing.T) {
	t.Parallel()
	later, other := aReason(), aReason()
	later.Time, other.Message = metav1.NewTime(noon.Add(time.Hour)), "1 node has too few free GPUs"
	if !Same(aReason(), later) || Same(aReason(), other) {
		t.Error("only the time makes no difference")
	}
}

func TestWhatPluginsSayInPlainWords(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		nodes         int
		message, want string
	}{
		"on one node":                      {1, "node(s) didn't have free ports for the requested pod ports", "1 node with room has a host port in use that it needs"},
		"on several nodes":                 {3, "node(s) didn't match PersistentVolume's node affinity", "3 nodes with room can't reach its volumes"},
		"a resource":                       {2, "Insufficient example.com/dongle", "2 nodes with room have too little free example.com/dongle"},
		"a cause that holds on all nodes":  {2, `persistentvolumeclaim "a" is being deleted`, `2 nodes with room refuse it: PersistentVolumeClaim "a" is being deleted`},
		"what nobody knows":                {1, "node(s) are haunted", "1 node with room refuses it: node(s) are haunted"},
		"two names":                        {0, `persistentvolumeclaim "a" bound to non-existent persistentvolume "b"`, `PersistentVolumeClaim "a" is bound to PersistentVolume "b", which does not exist`},
		"a quotation mark without another": {0, `persistentvolumeclaim "a`, `persistentvolumeclaim "a`},
		"a percent sign in a name":         {0, `persistentvolumeclaim "%d" not found`, `PersistentVolumeClaim "%d" does not exist`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := RefusedEverywhere(test.message)
			if test.nodes > 0 {
				got = RefusedBy(test.nodes, test.message)
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
