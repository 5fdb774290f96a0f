// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/programs"
)

// These tests attack what docs/security.md says is protected, as tenants: users with all rights
// that Kubernetes' role admin gives in one namespace.

// tenant is a user who may do in the suite's namespace what a role says, and nothing elsewhere.
type tenant struct {
	kube  kubernetes.Interface
	tasks clientset.Interface
}

// newTenant creates a user with the rules of Kubernetes' role admin, and further ones.
func (s *suite) newTenant(more ...rbacv1.PolicyRule) *tenant {
	s.Helper()
	const name = "tenant"
	user := name + "-of-" + s.namespace
	if len(more) > 0 {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: more}
		if _, err := s.cluster.kube.RbacV1().Roles(s.namespace).Create(s.Context(), role, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
		s.grant(user, name+"-more", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name})
	}
	// The last one, as this is what is waited for.
	s.grant(user, name, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"})
	return s.as(user, "system:authenticated")
}

func (s *suite) grant(user, binding string, role rbacv1.RoleRef) {
	s.Helper()
	object := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: binding}, RoleRef: role,
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}
	if _, err := s.cluster.kube.RbacV1().RoleBindings(s.namespace).Create(s.Context(), object, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// as returns the clients of a user, who has rights once the API server has seen them.
func (s *suite) as(user string, groups ...string) *tenant {
	s.Helper()
	config := rest.CopyConfig(s.cluster.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.Fatal(err)
	}
	tasks, err := clientset.NewForConfig(config)
	if err != nil {
		s.Fatal(err)
	}
	s.eventually("the rights of "+user+" are in force", func() (bool, string) {
		_, err := tasks.FalldioV1().GPUTasks(s.namespace).Create(s.Context(), newTask("probe", 1, "1s"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil, fmt.Sprint(err)
	})
	return &tenant{kube: kube, tasks: tasks}
}

// gpuPod returns a Pod that asks for GPUs, and fits no node.
func gpuPod(name, gpus string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeSelector: map[string]string{"test": "no-node"}, Containers: []corev1.Container{{
			Name: "x", Image: "x", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{v1.ResourceGPU: resource.MustParse(gpus)}},
		}}},
	}
}

func dryCreation() metav1.CreateOptions {
	return metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
}

const (
	notTheirAssignment = "the annotation falldio.com/gpu-assignment is written by the scheduler and the node's agent only"
	notTheirInstance   = "the annotation falldio.com/scheduler-instance is written by the scheduler only"
	notTheirEstimate   = "the annotation falldio.com/start-estimate is written by the scheduler only"
	notTheirReason     = "the annotation falldio.com/waiting-reason is written by the scheduler only"
	notTheirNode       = "a Pod that asks for GPUs must not name its node"
)

func TestATenantDoesNotSayWhichGPUsAPodHas(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tenant := s.newTenant()
	tests := map[string]struct {
		change  func(*corev1.Pod)
		refusal string
	}{
		"a Pod that asks for a GPU": {func(*corev1.Pod) {}, ""},
		"one with a forged assignment": {func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{inventory.AssignmentAnnotation: `{"version":"v1","containers":{"x":{"falldio.com/gpu":["A","B","C"]}}}`}
		}, notTheirAssignment},
		"one with an empty assignment": {func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{inventory.AssignmentAnnotation: ""}
		}, notTheirAssignment},
		"one that a scheduler seems to have bound": {func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{v1.AnnotationSchedulerInstance: "gpu-scheduler/1"}
		}, notTheirInstance},
		"one that says when it starts": {func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{v1.AnnotationStartEstimate: "{}"}
		}, notTheirEstimate},
		"one that says why it waits": {func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{v1.AnnotationWaitingReason: "{}"}
		}, notTheirReason},
		"one that goes past the scheduler": {func(pod *corev1.Pod) { pod.Spec.NodeName = "h100-0" }, notTheirNode},
		"one whose init container goes past the scheduler": {func(pod *corev1.Pod) {
			pod.Spec.NodeName, pod.Spec.InitContainers = "h100-0", pod.Spec.Containers
			pod.Spec.InitContainers[0].Name = "init"
			pod.Spec.Containers = []corev1.Container{{Name: "x", Image: "x"}}
		}, notTheirNode},
		"one with a share that goes past the scheduler": {func(pod *corev1.Pod) {
			pod.Spec.NodeName = "h100-0"
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{v1.ResourceGPUPercent: resource.MustParse("10")}
		}, notTheirNode},
		"one without GPUs may name its node": {func(pod *corev1.Pod) {
			pod.Spec.NodeName, pod.Spec.Containers[0].Resources.Limits = "h100-0", nil
		}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := gpuPod("attack", "1")
			test.change(pod)
			_, err := tenant.kube.CoreV1().Pods(s.namespace).Create(t.Context(), pod, dryCreation())
			checkRefusal(t, err, test.refusal)
			// Who may bind Pods may say all of that.
			if _, err := s.cluster.kube.CoreV1().Pods(s.namespace).Create(t.Context(), pod, dryCreation()); err != nil {
				t.Errorf("an administrator is refused: %v", err)
			}
		})
	}
}

// TestAKubeletMirrorsItsStaticPods: a static Pod with GPUs runs whether or not it has a mirror.
func TestAKubeletMirrorsItsStaticPods(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const user = "system:node:h100-0"
	s.grant(user, "kubelet", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"})
	kubelet := s.as(user, "system:nodes", "system:authenticated")
	pod := gpuPod("static", "1")
	pod.Spec.NodeName = "h100-0"
	_, err := kubelet.kube.CoreV1().Pods(s.namespace).Create(t.Context(), pod, dryCreation())
	checkRefusal(t, err, "")
	pod.Annotations = map[string]string{inventory.AssignmentAnnotation: "{}"}
	_, err = kubelet.kube.CoreV1().Pods(s.namespace).Create(t.Context(), pod, dryCreation())
	checkRefusal(t, err, notTheirAssignment)
}

// TestATenantDoesNotChangeWhichGPUsAPodHas attacks through each subresource, by a tenant who was
// given the right to write them but not the right to bind Pods.
func TestATenantDoesNotChangeWhichGPUsAPodHas(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tenant := s.newTenant(rbacv1.PolicyRule{
		APIGroups: []string{""}, Verbs: []string{"get", "patch", "update"},
		Resources: []string{"pods/status", "pods/ephemeralcontainers", "pods/resize"},
	})
	pod := gpuPod("victim", "1")
	pod.Annotations = map[string]string{inventory.AssignmentAnnotation: "{}", v1.AnnotationSchedulerInstance: "a/1"}
	if _, err := s.cluster.kube.CoreV1().Pods(s.namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, subresource := range []string{"", "status", "ephemeralcontainers", "resize"} {
		for name, test := range map[string]struct{ patch, refusal string }{
			"another assignment":      {`{"metadata": {"annotations": {"falldio.com/gpu-assignment": "x"}}}`, notTheirAssignment},
			"taking it away":          {`{"metadata": {"annotations": {"falldio.com/gpu-assignment": null}}}`, notTheirAssignment},
			"another scheduler":       {`{"metadata": {"annotations": {"falldio.com/scheduler-instance": "b/1"}}}`, notTheirInstance},
			"taking all away":         {`{"metadata": {"annotations": null}}`, notTheirAssignment},
			"the same assignment":     {`{"metadata": {"annotations": {"falldio.com/gpu-assignment": "{}"}}}`, ""},
			"an annotation of theirs": {`{"metadata": {"annotations": {"theirs": "x"}}}`, ""},
		} {
			t.Run(subresource+" "+name, func(t *testing.T) {
				t.Parallel()
				var path []string
				if subresource != "" {
					path = []string{subresource}
				}
				patched, err := tenant.kube.CoreV1().Pods(s.namespace).Patch(t.Context(), "victim", types.MergePatchType, []byte(test.patch), dryRun(), path...)
				if test.refusal != "" && err == nil && patched.Annotations[inventory.AssignmentAnnotation] == "{}" && patched.Annotations[v1.AnnotationSchedulerInstance] == "a/1" {
					return // the subresource does not change annotations at all
				}
				checkRefusal(t, err, test.refusal)
			})
		}
	}
	agent := s.asAgentOf("h100-0")
	_, err := agent.CoreV1().Pods(s.namespace).Patch(t.Context(), "victim", types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"falldio.com/scheduler-instance": "b/1"}}}`), dryRun())
	if err == nil {
		t.Error("the agent of a node says who has bound a Pod")
	}
}

// TestATemplateDoesNotSayWhichGPUsItsPodsHave: the Pods of tasks are created by gpu-controller,
// which may not bind Pods either.
func TestATemplateDoesNotSayWhichGPUsItsPodsHave(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.create(newTask("forged", 1, "1s", inventory.AssignmentAnnotation, "{}"))
	s.waitForMessage("forged", notTheirAssignment)
	task := newTask("past", 1, "1s")
	task.Spec.Template.Spec.NodeName = "h100-0"
	_, err := s.tasks().Create(t.Context(), task, dryCreation())
	checkRefusal(t, err, "must be empty: it would bypass the scheduler")
}

func TestATenantStaysInItsNamespace(t *testing.T) {
	t.Parallel()
	s, other := newSuite(t), newSuite(t)
	tenant := s.newTenant()
	victim := other.create(newTask("victim", 1, "forever"))
	ctx, tasks, plans := t.Context(), tenant.tasks.FalldioV1(), tenant.tasks.FalldioV1().MovePlans()
	all := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	nodePatch := func(text string) error {
		_, err := tenant.kube.CoreV1().Nodes().Patch(ctx, "h100-0", types.MergePatchType, []byte(text), dryRun())
		return err
	}
	errorOf := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"see tasks of another namespace":    errorOf(tasks.GPUTasks(other.namespace).List(ctx, metav1.ListOptions{})),
		"create tasks in another namespace": errorOf(tasks.GPUTasks(other.namespace).Create(ctx, newTask("x", 1, "1s"), dryCreation())),
		"change a task of another namespace": errorOf(tasks.GPUTasks(other.namespace).Patch(ctx, victim.Name, types.MergePatchType,
			[]byte(`{"spec": {"suspend": true}}`), dryRun())),
		"delete a task of another namespace": tasks.GPUTasks(other.namespace).Delete(ctx, victim.Name, all),
		"say how its own task is": errorOf(tasks.GPUTasks(s.namespace).Patch(ctx, "any", types.MergePatchType,
			[]byte(`{"status": {"phase": "Succeeded"}}`), dryRun(), "status")),
		"see plans of moves":          errorOf(plans.List(ctx, metav1.ListOptions{})),
		"plan moves":                  errorOf(plans.Create(ctx, &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, dryCreation())),
		"approve moves":               errorOf(plans.Patch(ctx, "any", types.MergePatchType, []byte(`{"spec": {"approved": true}}`), dryRun())),
		"reserve places":              nodePatch(`{"metadata": {"annotations": {"falldio.com/reservations": "[]"}}}`),
		"say which GPUs a node has":   nodePatch(`{"metadata": {"annotations": {"falldio.com/gpu-inventory": "{}"}}}`),
		"move a node to another pool": nodePatch(`{"metadata": {"labels": {"falldio.com/node-pool": "x"}}}`),
		"allow itself a higher priority": errorOf(tenant.kube.CoreV1().Namespaces().Patch(ctx, s.namespace, types.MergePatchType,
			[]byte(`{"metadata": {"labels": {"falldio.com/max-priority": "1000"}}}`), dryRun())),
		"bind a Pod": tenant.kube.CoreV1().Pods(s.namespace).Bind(ctx,
			&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Target: corev1.ObjectReference{Kind: "Node", Name: "h100-0"}}, dryCreation()),
		"read what the agents serve": tenant.kube.CoreV1().RESTClient().Get().Namespace("nodeagent-system").Resource("pods").Name("x").SubResource("proxy").Do(ctx).Error(),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("a tenant may %s: %v", what, err)
		}
	}
}

// TestPodSecurityAppliesToThePodsOfTasks: what a tenant may not create itself gpu-controller does
// not create for it.
func TestPodSecurityAppliesToThePodsOfTasks(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.labelNamespace("pod-security.kubernetes.io/enforce", "restricted")
	s.startController()
	privileged := newTask("privileged", 1, "1s")
	privileged.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "gpu-task", Image: "x", SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
	}}
	task := s.create(privileged)
	s.waitForMessage("privileged", `violates PodSecurity "restricted:latest"`)
	s.waitForMessage("privileged", `privileged (container "gpu-task" must not set securityContext.privileged=true)`)
	s.waitForEvent(task, "Forbidden")
	if pods := s.podsOf("privileged"); len(pods) != 0 {
		t.Errorf("%d Pods were created", len(pods))
	}
	restricted := newTask("restricted", 1, "1s")
	restricted.Spec.Template.Spec = corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{Name: "gpu-task", Image: "x", SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}}},
	}
	s.create(restricted)
	s.waitForPhase("restricted", v1.PhaseSucceeded)
}

// TestWhoMayCreateTasksMayUseEveryServiceAccount shows what docs/security.md warns of.
func TestWhoMayCreateTasksMayUseEveryServiceAccount(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	accounts := s.cluster.kube.CoreV1().ServiceAccounts(s.namespace)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "powerful"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "tasks"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1.GroupName}, Resources: []string{"gputasks"}, Verbs: []string{"create"}},
	}}
	if _, err := s.cluster.kube.RbacV1().Roles(s.namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	user := "submitter-of-" + s.namespace
	s.grant(user, "tasks", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tasks"})
	submitter := s.as(user, "system:authenticated")
	if _, err := submitter.kube.CoreV1().Pods(s.namespace).Create(t.Context(), gpuPod("x", "1"), dryCreation()); !apierrors.IsForbidden(err) {
		t.Errorf("it may create Pods: %v", err)
	}
	task := newTask("train", 1, "forever")
	task.Spec.Template.Spec.ServiceAccountName = "powerful"
	if _, err := submitter.tasks.FalldioV1().GPUTasks(s.namespace).Create(t.Context(), task, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForPods("train", "it runs as the account", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].Spec.ServiceAccountName == "powerful"
	})
}

// TestTheGuardOfPriorities applies artifacts/priorities to the test's namespace only.
func TestTheGuardOfPriorities(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tenant := s.newTenant()
	s.applyPolicy("priorities", "gpu-priorities")
	pods := tenant.kube.CoreV1().Pods(s.namespace)
	create := func(class string) error {
		pod := gpuPod("attack", "1")
		pod.Spec.PriorityClassName = class
		_, err := pods.Create(t.Context(), pod, dryCreation())
		return err
	}
	const limit = "may have a priority of at most 10"
	s.eventually("the guard is in force", func() (bool, string) {
		err := create("gpu-high-priority")
		return err != nil, "gpu-high-priority is allowed"
	})
	checkRefusal(t, create("gpu-high-priority"), limit+", and gpu-high-priority is 100")
	checkRefusal(t, create("system-node-critical"), limit+", and system-node-critical is 2000001000")
	checkRefusal(t, create("gpu-medium-priority"), "")
	checkRefusal(t, create(""), "")

	s.startController()
	task := newTask("train", 1, "1s")
	task.Spec.Priority = "gpu-high-priority"
	s.create(task)
	s.waitForMessage("train", limit)
	s.labelNamespace("falldio.com/max-priority", "100")
	s.waitForPhase("train", v1.PhaseSucceeded)

	if output, err := s.cluster.kubectl(t.Context(), "-n", s.namespace, "apply", "-f", "artifacts/priorities/quota.yaml"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	s.eventually("the quota is in force", func() (bool, string) {
		quota, err := s.cluster.kube.CoreV1().ResourceQuotas(s.namespace).Get(t.Context(), "gpu-high-priority", metav1.GetOptions{})
		return err == nil && len(quota.Status.Hard) == 2, fmt.Sprint(err)
	})
	many := gpuPod("many", "9")
	many.Spec.PriorityClassName = "gpu-high-priority"
	_, err := pods.Create(t.Context(), many, dryCreation())
	checkRefusal(t, err, "exceeded quota: gpu-high-priority, requested: requests.falldio.com/gpu=9, used: requests.falldio.com/gpu=0, limited: requests.falldio.com/gpu=8")
	many.Spec.PriorityClassName = "gpu-medium-priority"
	_, err = pods.Create(t.Context(), many, dryCreation())
	checkRefusal(t, err, "")
}

// applyPolicy applies the policy of a folder of artifacts, bound to the suite's namespace only.
func (s *suite) applyPolicy(folder, name string) {
	s.Helper()
	binding := map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{"matchResources": map[string]any{"namespaceSelector": map[string]any{
			"matchLabels": map[string]any{corev1.LabelMetadataName: s.namespace},
		}}},
	}
	patch, err := yaml.Marshal(binding)
	if err != nil {
		s.Fatal(err)
	}
	dir := s.TempDir()
	kustomization := "resources: [policy.yaml]\npatches: [{path: binding.yaml}]\n"
	policy, err := os.ReadFile(filepath.Join(programs.Root(), "artifacts", folder, "policy.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	for name, content := range map[string][]byte{"kustomization.yaml": []byte(kustomization), "policy.yaml": policy, "binding.yaml": patch} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			s.Fatal(err)
		}
	}
	if output, err := s.cluster.kubectl(s.Context(), "apply", "-k", dir); err != nil {
		s.Fatalf("%v\n%s", err, output)
	}
	s.Cleanup(func() {
		if output, err := s.cluster.kubectl(context.WithoutCancel(s.Context()), "delete", "-k", dir); err != nil {
			s.Errorf("%v\n%s", err, output)
		}
	})
}

func (s *suite) labelNamespace(label, value string) {
	s.Helper()
	patch := fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, label, value)
	if _, err := s.cluster.kube.CoreV1().Namespaces().Patch(s.Context(), s.namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
}
