// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// test/e2e tests the policy on a real API server. This tests its expressions with the API server's
// evaluator, with statuses that are hard to bring about there, and what they cost.

// policy is a compiled ValidatingAdmissionPolicy.
type policy struct {
	spec      admissionregistrationv1.ValidatingAdmissionPolicySpec
	compiler  *plugincel.CompositedCompiler
	evaluator plugincel.ConditionEvaluator
}

// nodeagentPolicy returns the policy of the node agents.
func nodeagentPolicy(t *testing.T) *policy {
	t.Helper()
	text, err := Files.ReadFile("rbac/nodeagent-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	object := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := decoder.Decode(object); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	p := &policy{spec: object.Spec}
	if p.compiler, err = plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())); err != nil {
		t.Fatal(err)
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	for i := range p.spec.Variables {
		variable := &validating.Variable{Name: p.spec.Variables[i].Name, Expression: p.spec.Variables[i].Expression}
		if result := p.compiler.CompileAndStoreVariable(variable, options, environment.NewExpressions); result.Error != nil {
			t.Fatalf("variable %s: %v", variable.Name, result.Error)
		}
	}
	expressions := make([]plugincel.ExpressionAccessor, 0, len(p.spec.Validations))
	for i := range p.spec.Validations {
		expressions = append(expressions, &validating.ValidationCondition{Expression: p.spec.Validations[i].Expression})
	}
	p.evaluator = p.compiler.CompileCondition(expressions, options, environment.NewExpressions)
	for _, err := range p.evaluator.CompilationErrors() {
		t.Errorf("compiling: %v", err)
	}
	return p
}

// update is a request of the agent of a node.
type update struct {
	before, after *corev1.Node
	subresource   string
}

// representations are how API servers show objects to expressions: those of earlier versions of
// Kubernetes as maps, later ones as what they are.
func representations() map[string]func(*testing.T, *corev1.Node) admission.LazyObject {
	return map[string]func(*testing.T, *corev1.Node) admission.LazyObject{
		"as a map": func(t *testing.T, node *corev1.Node) admission.LazyObject {
			t.Helper()
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(node)
			if err != nil {
				t.Fatal(err)
			}
			return admission.NewLazyObject(&unstructured.Unstructured{Object: content})
		},
		"as it is": func(_ *testing.T, node *corev1.Node) admission.LazyObject { return admission.NewLazyObject(node) },
	}
}

// refusals returns the messages of the validations that refuse an update, and checks what all of
// them cost.
func (p *policy) refusals(t *testing.T, u update, show func(*testing.T, *corev1.Node) admission.LazyObject) (messages []string) {
	t.Helper()
	agent := &user.DefaultInfo{
		Name:  "system:serviceaccount:nodeagent-system:nodeagent",
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {u.after.Name}},
	}
	kind, resource := corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithResource("nodes")
	attributes := admission.NewAttributesRecord(u.after, u.before, kind, "", u.after.Name, resource, u.subresource, admission.Update, &metav1.UpdateOptions{}, false, agent)
	versioned := &admission.VersionedAttributes{
		Attributes: attributes, VersionedKind: kind, VersionedObject: show(t, u.after), VersionedOldObject: show(t, u.before),
	}
	request := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(kind))
	results, left, err := p.evaluator.ForInput(p.compiler.CreateContext(t.Context()), versioned, request, plugincel.OptionalVariableBindings{}, nil, apiservercel.RuntimeCELCostBudget)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		if result.Error != nil {
			t.Errorf("validation %d: %v", i, result.Error)
		} else if result.EvalResult.Value() != true {
			messages = append(messages, p.spec.Validations[i].Message)
		}
	}
	const share = 100 // a hundredth leaves room for larger statuses
	if cost := apiservercel.RuntimeCELCostBudget - left; cost > apiservercel.RuntimeCELCostBudget/share {
		t.Errorf("it costs %d of %d", cost, apiservercel.RuntimeCELCostBudget)
	}
	return messages
}

// busyNode is a Node with as much in its status as kubelets report.
func busyNode() *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"falldio.com/gpu": "h100"}, Annotations: map[string]string{"x": "y"}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.0.0.0/24"},
		Status: corev1.NodeStatus{
			Phase:      corev1.NodeRunning,
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n1"}},
			Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True", Message: "kubelet is posting ready status"}, {Type: "DiskPressure", Status: "False"}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.37.1"},
		},
	}
	const images = 50 // nodeStatusMaxImages of the kubelet
	for i := range images {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{strings.Repeat("registry.example.com/", 10) + fmt.Sprint(i)}, SizeBytes: 1})
	}
	return node
}

func healthCondition(status corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: "GPUHealthy", Status: status, Reason: "NodeReboot", Message: "x", LastTransitionTime: metav1.Unix(1000, 0)}
}

func TestTheAgentsPolicyForTheStatus(t *testing.T) {
	t.Parallel()
	const onlyCondition = "nodeagent changes only the condition GPUHealthy in the status of its Node"
	p := nodeagentPolicy(t)
	broken := busyNode()
	broken.Status.Conditions = append(broken.Status.Conditions, healthCondition("False"))
	tests := map[string]struct {
		before *corev1.Node // busyNode if nil
		change func(*corev1.Node)
		want   []string
	}{
		"adding its condition": {change: func(n *corev1.Node) { n.Status.Conditions = append(n.Status.Conditions, healthCondition("True")) }},
		"adding it before the others": {change: func(n *corev1.Node) {
			n.Status.Conditions = slices.Insert(n.Status.Conditions, 0, healthCondition("True"))
		}},
		"changing it":        {before: broken, change: func(n *corev1.Node) { n.Status.Conditions[2] = healthCondition("True") }},
		"removing it":        {before: broken, change: func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[:2] }},
		"to an empty status": {before: &corev1.Node{ObjectMeta: busyNode().ObjectMeta}, change: func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{healthCondition("True")} }},
		"changing another":   {change: func(n *corev1.Node) { n.Status.Conditions[0].Status = "False" }, want: []string{onlyCondition}},
		"only its time":      {change: func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Unix(2000, 0) }, want: []string{onlyCondition}},
		"adding another": {change: func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "X", Status: "True"})
		}, want: []string{onlyCondition}},
		"removing another":    {change: func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[1:] }, want: []string{onlyCondition}},
		"removing all":        {change: func(n *corev1.Node) { n.Status.Conditions = nil }, want: []string{onlyCondition}},
		"doubling another":    {change: func(n *corev1.Node) { n.Status.Conditions = append(n.Status.Conditions, n.Status.Conditions[0]) }, want: []string{onlyCondition}},
		"a capacity":          {change: func(n *corev1.Node) { n.Status.Capacity = corev1.ResourceList{"falldio.com/gpu": {}} }, want: []string{onlyCondition}},
		"an address":          {change: func(n *corev1.Node) { n.Status.Addresses[0].Address = "evil" }, want: []string{onlyCondition}},
		"no address":          {change: func(n *corev1.Node) { n.Status.Addresses = nil }, want: []string{onlyCondition}},
		"an image":            {change: func(n *corev1.Node) { n.Status.Images[49].Names[0] = "other" }, want: []string{onlyCondition}},
		"a field that is new": {change: func(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{"v"} }, want: []string{onlyCondition}},
		"its own label":       {change: func(n *corev1.Node) { n.Labels["falldio.com/gpu"] = "b200" }, want: []string{"nodeagent must not change labels and annotations together with the status"}},
		"its own annotation": {
			change: func(n *corev1.Node) { n.Annotations["falldio.com/gpu-inventory"] = "{}" },
			want:   []string{"nodeagent must not change labels and annotations together with the status"},
		},
		"a taint": {change: func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} }, want: []string{"nodeagent must not change the spec"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := test.before
			if before == nil {
				before = busyNode()
			}
			after := before.DeepCopy()
			test.change(after)
			for shown, show := range representations() {
				if diff := cmp.Diff(test.want, p.refusals(t, update{before, after, "status"}, show)); diff != "" {
					t.Errorf("%s: refusals (-want +got):\n%s", shown, diff)
				}
			}
		})
	}
}

func TestTheAgentsPolicyForLabels(t *testing.T) {
	t.Parallel()
	p := nodeagentPolicy(t)
	after := busyNode()
	after.Labels["falldio.com/gpu"] = "b200"
	after.Labels["falldio.com/mig-1g.10gb.count"] = "7"
	gone := busyNode()
	gone.Labels["falldio.com/mig-strategy"] = "single"
	foreign := busyNode()
	foreign.Labels["falldio.com/migrate"] = "true"
	const others = "nodeagent changes only the labels falldio.com/gpu, falldio.com/gpu-* and falldio.com/mig-* of its Node"
	const creates = "nodeagent changes Nodes and Pods, it creates none and has no business with their subresources, except the status of its Node"
	for shown, show := range representations() {
		if got := p.refusals(t, update{busyNode(), after, ""}, show); got != nil {
			t.Errorf("%s: refused: %v", shown, got)
		}
		if got := p.refusals(t, update{gone, busyNode(), ""}, show); got != nil {
			t.Errorf("%s: removing a label about slices is refused: %v", shown, got)
		}
		for what, u := range map[string]update{"adding": {busyNode(), foreign, ""}, "removing": {foreign, busyNode(), ""}} {
			if got := p.refusals(t, u, show); !cmp.Equal(got, []string{others}) {
				t.Errorf("%s: %s another label: %v", shown, what, got)
			}
		}
		if got := p.refusals(t, update{busyNode(), busyNode(), "proxy"}, show); !cmp.Equal(got, []string{creates}) {
			t.Errorf("%s: another subresource: %v", shown, got)
		}
	}
}
