// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	typedv1 "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/typed/gpucontroller/v1"
)

func (s *suite) queues() typedv1.GPUQueueInterface { return s.cluster.tasks.FalldioV1().GPUQueues() }

// createQueue creates a queue until the end of the test. Other tests share the cluster: its name
// should have that of the namespace, and its selector should select nothing else.
func (s *suite) createQueue(name string, spec *v1.GPUQueueSpec) {
	s.Helper()
	queue := &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *spec}
	if _, err := s.queues().Create(s.Context(), queue, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		err := s.queues().Delete(context.WithoutCancel(s.Context()), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			s.Error(err)
		}
	})
}

// onlyHere selects the suite's namespace.
func (s *suite) onlyHere() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}}
}

func (s *suite) waitForQueue(name, what string, holds func(*v1.GPUQueue) bool) {
	s.Helper()
	s.eventually("queue "+name+": "+what, func() (bool, string) {
		queue, err := s.queues().Get(s.Context(), name, metav1.GetOptions{})
		return err == nil && holds(queue), fmt.Sprintf("%v, %+v", err, queue)
	})
}

// TestValidationOfQueues has an accepted and a rejected object for every rule of the CRD's schema.
func TestValidationOfQueues(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tests := map[string]struct {
		// spec is the queue's spec as YAML.
		spec string
		// name is the queue's name, if it matters.
		name string
		// want is part of the error; empty if the queue is accepted.
		want string
	}{
		"no field at all": {spec: `{}`},
		"every field": {spec: `{parent: org, namespaceSelector: {matchLabels: {team: vision}, matchExpressions: [{key: env, operator: In, values: [prod]}, {key: old, operator: DoesNotExist}]},
			resources: [{gpu: h100-80gb-hbm3, guaranteed: 8, limit: 16}, {gpu: "*", limit: 32}], weight: 3, maxRuntimeSeconds: 86400, defaultRuntimeSeconds: 3600,
			priorities: [gpu-low-priority, ""], reclaim: {policy: LowerPriority, minRuntimeSeconds: 600, noticeSeconds: 0}}`},
		"an unknown field":                        {spec: `{quota: 1}`, want: `unknown field "spec.quota"`},
		"a name that is no label":                 {name: "a.b", spec: `{}`, want: "metadata.name must have at most 63 lower-case letters, digits and '-'"},
		"a name that is too long":                 {name: strings.Repeat("a", 64), spec: `{}`, want: "metadata.name must have at most 63 lower-case letters"},
		"the longest name":                        {name: strings.Repeat("a", 63), spec: `{}`},
		"its own parent":                          {name: "own-parent", spec: `{parent: own-parent}`, want: "spec.parent: Invalid value: a queue cannot be its own parent: leave parent out, or name another queue"},
		"a parent that can't be":                  {spec: `{parent: My.Org}`, want: `spec.parent: Invalid value: "My.Org": must be the name of a GPUQueue`},
		"a parent whose name is too long":         {spec: `{parent: ` + strings.Repeat("a", 64) + `}`, want: `spec.parent: Too long`},
		"all namespaces":                          {spec: `{namespaceSelector: {}}`},
		"a selector with an unknown operator":     {spec: `{namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}`, want: `spec.namespaceSelector.matchExpressions: Invalid value: each operator must be In or NotIn, with values, or Exists or DoesNotExist, without`},
		"a selector of no values":                 {spec: `{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}`, want: `each operator must be In or NotIn, with values`},
		"a selector with values it has no use of": {spec: `{namespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`, want: `Exists or DoesNotExist, without`},
		"too many requirements":                   {spec: `{namespaceSelector: {matchExpressions: [` + strings.Repeat(`{key: a, operator: Exists},`, 33) + `]}}`, want: `spec.namespaceSelector.matchExpressions: Too many: 33: must have at most 32 items`},
		"a model that is no label":                {spec: `{resources: [{gpu: "RTX 4090"}]}`, want: `spec.resources[0].gpu: Invalid value: "RTX 4090": must be a GPU model as in the node label falldio.com/gpu, for example "rtx4090", or "*" for all models together`},
		"a resource without a model":              {spec: `{resources: [{guaranteed: 1}]}`, want: `spec.resources[0].gpu: Required value`},
		"the same model twice":                    {spec: `{resources: [{gpu: a}, {gpu: a}]}`, want: `spec.resources[1]: Duplicate value`},
		"too many models":                         {spec: `{resources: [` + manyModels(65) + `]}`, want: `spec.resources: Too many: 65: must have at most 64 items`},
		"as many models as possible":              {spec: `{resources: [` + manyModels(64) + `]}`},
		"a negative guarantee":                    {spec: `{resources: [{gpu: a, guaranteed: -1}]}`, want: `spec.resources[0].guaranteed in body should be greater than or equal to 0`},
		"half a GPU":                              {spec: `{resources: [{gpu: a, guaranteed: 0.5}]}`, want: `spec.resources[0].guaranteed`},
		"a negative limit":                        {spec: `{resources: [{gpu: a, limit: -1}]}`, want: `spec.resources[0].limit`},
		"a limit of nothing":                      {spec: `{resources: [{gpu: a, limit: 0}]}`},
		"a limit below the guarantee":             {spec: `{resources: [{gpu: a, guaranteed: 4, limit: 3}]}`, want: `spec.resources[0].limit: Invalid value: must not be less than guaranteed: raise limit, or lower guaranteed`},
		"a limit of all below the guarantees":     {spec: `{resources: [{gpu: a, guaranteed: 4}, {gpu: b, guaranteed: 4}, {gpu: "*", limit: 7}]}`, want: `spec.resources: Invalid value: the limit of "*" counts all GPUs of the queue: it must not be less than what is guaranteed of the models together`},
		"a limit of all that just holds them":     {spec: `{resources: [{gpu: a, guaranteed: 4}, {gpu: b, guaranteed: 4}, {gpu: "*", limit: 8}]}`},
		"no weight":                               {spec: `{weight: 0}`, want: `spec.weight in body should be greater than or equal to 1`},
		"too great a weight":                      {spec: `{weight: 1001}`, want: `spec.weight in body should be less than or equal to 1000`},
		"no run time":                             {spec: `{maxRuntimeSeconds: 0}`, want: `spec.maxRuntimeSeconds`},
		"no default run time":                     {spec: `{defaultRuntimeSeconds: 0}`, want: `spec.defaultRuntimeSeconds`},
		"a default above the limit":               {spec: `{maxRuntimeSeconds: 60, defaultRuntimeSeconds: 61}`, want: `spec.defaultRuntimeSeconds: Invalid value: must not be greater than spec.maxRuntimeSeconds`},
		"a default that is the limit":             {spec: `{maxRuntimeSeconds: 60, defaultRuntimeSeconds: 60}`},
		"a priority that can't be":                {spec: `{priorities: [High Priority]}`, want: `spec.priorities: Invalid value: must be names of PriorityClasses, for example "gpu-high-priority", or "" for Pods without one`},
		"the same priority twice":                 {spec: `{priorities: [a, a]}`, want: `spec.priorities[1]: Duplicate value`},
		"too many priorities":                     {spec: `{priorities: [` + strings.Repeat(`a,`, 65) + `]}`, want: `spec.priorities: Too many: 65: must have at most 64 items`},
		"an unknown way to reclaim":               {spec: `{reclaim: {policy: Sometimes}}`, want: `spec.reclaim.policy: Unsupported value: "Sometimes": supported values: "Any", "LowerPriority", "Never"`},
		"a negative run time before it":           {spec: `{reclaim: {minRuntimeSeconds: -1}}`, want: `spec.reclaim.minRuntimeSeconds`},
		"a run time before it of over a week":     {spec: `{reclaim: {minRuntimeSeconds: 604801}}`, want: `spec.reclaim.minRuntimeSeconds`},
		"a notice of over an hour":                {spec: `{reclaim: {noticeSeconds: 3601}}`, want: `spec.reclaim.noticeSeconds`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := map[string]any{}
			if err := yaml.Unmarshal([]byte(test.spec), &spec); err != nil {
				t.Fatal(err)
			}
			called := test.name
			if called == "" {
				called = "q"
			}
			queue := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "falldio.com/v1", "kind": "GPUQueue", "metadata": map[string]any{"name": called}, "spec": spec,
			}}
			_, err := s.cluster.dynamic.Resource(v1.TaskKind().GroupVersion().WithResource("gpuqueues")).Create(t.Context(), queue,
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			checkRefusal(t, err, test.want)
		})
	}
}

func manyModels(count int) string {
	var models strings.Builder
	for i := range count {
		fmt.Fprintf(&models, `{gpu: model-%d, guaranteed: 1},`, i)
	}
	return models.String()
}

func TestDefaultsOfQueues(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	queue := &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: "defaults-of-" + s.namespace}, Spec: v1.GPUQueueSpec{
		Resources: []v1.GPUQueueResource{{GPU: "*"}}, Reclaim: &v1.GPUQueueReclaim{},
	}}
	got, err := s.queues().Create(t.Context(), queue, dryCreation())
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.NamespaceSelector != nil || *got.Spec.Weight != 1 || got.Spec.Resources[0].Limit != nil {
		t.Errorf("spec: %+v", got.Spec)
	}
	if reclaim := got.Spec.Reclaim; reclaim.Policy != v1.ReclaimAny || *reclaim.MinRuntimeSeconds != v1.DefaultReclaimMinRuntimeSeconds || *reclaim.NoticeSeconds != v1.DefaultReclaimNoticeSeconds {
		t.Errorf("reclaim: %+v", reclaim)
	}
}

const (
	notItsQueue        = "the label falldio.com/queue can't be changed once the Pod has a node"
	notTheirDefault    = "the label falldio.com/queue of a namespace is for those to change who may update gpuqueues"
	anotherTeamsQueue  = "does not accept namespace"
	changesOfTheQueues = `{"spec": {"weight": 1000}}`
)

// TestATenantDoesNotChangeQueues attacks what decides how much a queue gets, and who may use it.
func TestATenantDoesNotChangeQueues(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tenant := s.newTenant()
	name := "victim-of-" + s.namespace
	s.createQueue(name, &v1.GPUQueueSpec{})
	queues, ctx := tenant.tasks.FalldioV1().GPUQueues(), t.Context()
	errorOf := func(_ any, err error) error { return err }
	patchNamespace := func(label string) error {
		return errorOf(tenant.kube.CoreV1().Namespaces().Patch(ctx, s.namespace, types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"labels": {%q: "x"}}}`, label), dryRun()))
	}
	for what, err := range map[string]error{
		"see queues":     errorOf(queues.List(ctx, metav1.ListOptions{})),
		"create a queue": errorOf(queues.Create(ctx, &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, dryCreation())),
		"change a queue": errorOf(queues.Patch(ctx, name, types.MergePatchType, []byte(changesOfTheQueues), dryRun())),
		"delete a queue": queues.Delete(ctx, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}),
		"say what a queue has used": errorOf(queues.Patch(ctx, name, types.MergePatchType,
			[]byte(`{"status": {"usage": {"gpuSeconds": 0}}}`), dryRun(), "status")),
		"choose the default queue of its namespace":               errorOf(nil, patchNamespace(v1.LabelQueue)),
		"give its namespace a label that another queue looks for": errorOf(nil, patchNamespace("team")),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("a tenant may %s: %v", what, err)
		}
	}
}

// TestTheDefaultQueueOfANamespaceIsNotForWhoeverMayChangeNamespaces attacks as a user who may
// create and label namespaces.
func TestTheDefaultQueueOfANamespaceIsNotForWhoeverMayChangeNamespaces(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	user := "namespaces-of-" + s.namespace
	s.grantInCluster(user, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces", "namespaces/status"}, Verbs: []string{"create", "patch", "update"}})
	s.grant(user, "tenant", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"})
	namespaces := s.as(user, "system:authenticated").kube.CoreV1().Namespaces()
	patch := func(text string, subresources ...string) error {
		_, err := namespaces.Patch(t.Context(), s.namespace, types.MergePatchType, []byte(text), dryRun(), subresources...)
		return err
	}
	s.eventually("the user may change namespaces", func() (bool, string) {
		err := patch(`{"metadata": {"labels": {"theirs": "x"}}}`)
		return err == nil, fmt.Sprint(err)
	})
	checkRefusal(t, patch(`{"metadata": {"labels": {"falldio.com/queue": "x"}}}`), notTheirDefault)
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new-" + s.namespace, Labels: map[string]string{v1.LabelQueue: "x"}}}
	_, err := namespaces.Create(t.Context(), created, dryCreation())
	checkRefusal(t, err, notTheirDefault)
	created.Labels = nil
	_, err = namespaces.Create(t.Context(), created, dryCreation())
	checkRefusal(t, err, "")
	s.labelNamespace(v1.LabelQueue, "x") // an administrator
	checkRefusal(t, patch(`{"metadata": {"labels": {"falldio.com/queue": null}}}`), notTheirDefault)
	checkRefusal(t, patch(`{"metadata": {"labels": null}}`), notTheirDefault)
	checkRefusal(t, patch(`{"metadata": {"labels": {"falldio.com/queue": "x", "theirs": "y"}}}`), "")
	if err := patch(`{"metadata": {"labels": {"falldio.com/queue": "y"}}}`, "status"); err == nil {
		t.Log("the subresource status does not change labels")
	} else {
		checkRefusal(t, err, notTheirDefault)
	}
}

// grantInCluster gives a user a right in all namespaces until the end of the test.
func (s *suite) grantInCluster(user string, rule rbacv1.PolicyRule) {
	s.Helper()
	roles, bindings := s.cluster.kube.RbacV1().ClusterRoles(), s.cluster.kube.RbacV1().ClusterRoleBindings()
	meta := metav1.ObjectMeta{Name: user}
	if _, err := roles.Create(s.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}
	if _, err := bindings.Create(s.Context(), binding, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		ctx := context.WithoutCancel(s.Context())
		if err := bindings.Delete(ctx, user, metav1.DeleteOptions{}); err != nil {
			s.Error(err)
		}
		if err := roles.Delete(ctx, user, metav1.DeleteOptions{}); err != nil {
			s.Error(err)
		}
	})
}

// TestAPodStaysInItsQueue attacks with the label of a Pod that holds GPUs, and of one that waits.
func TestAPodStaysInItsQueue(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tenant := s.newTenant(rbacv1.PolicyRule{
		APIGroups: []string{""}, Verbs: []string{"get", "patch", "update"}, Resources: []string{"pods/status", "pods/ephemeralcontainers", "pods/resize"},
	})
	pods := s.cluster.kube.CoreV1().Pods(s.namespace)
	// On a real node the Pod would run soon, and then the API server refuses to resize it for another reason.
	for name, node := range map[string]string{"bound": "without-kubelet", "waits": ""} {
		pod := gpuPod(name, "1")
		pod.Labels, pod.Spec.NodeName = map[string]string{v1.LabelQueue: "a"}, node
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(pod, text string, subresources ...string) (*corev1.Pod, error) {
		return tenant.kube.CoreV1().Pods(s.namespace).Patch(t.Context(), pod, types.MergePatchType, []byte(text), dryRun(), subresources...)
	}
	for what, text := range map[string]string{
		"another queue": `{"metadata": {"labels": {"falldio.com/queue": "b"}}}`, "no queue": `{"metadata": {"labels": {"falldio.com/queue": null}}}`, "no labels": `{"metadata": {"labels": null}}`,
	} {
		for _, subresource := range []string{"", "status", "ephemeralcontainers", "resize"} {
			var path []string
			if subresource != "" {
				path = []string{subresource}
			}
			if patched, err := patch("bound", text, path...); err != nil || patched.Labels[v1.LabelQueue] != "a" {
				checkRefusal(t, err, notItsQueue)
			}
		}
		if _, err := patch("waits", text); err != nil {
			t.Errorf("a Pod that waits can't be given %s: %v", what, err)
		}
	}
	_, err := patch("bound", `{"metadata": {"labels": {"falldio.com/queue": "a", "theirs": "x"}}}`)
	checkRefusal(t, err, "")
}

// TestATaskDoesNotUseAnotherTeamsQueue attacks with all ways to name a queue.
func TestATaskDoesNotUseAnotherTeamsQueue(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	theirs, ours := "theirs-"+s.namespace, "ours-"+s.namespace
	s.createQueue(theirs, &v1.GPUQueueSpec{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "another"}}})
	s.createQueue(ours, &v1.GPUQueueSpec{NamespaceSelector: s.onlyHere(), Priorities: []string{"gpu-low-priority"}})
	s.startController()
	named := newTask("named", 1, "1s")
	named.Spec.Queue = theirs
	s.create(named)
	s.waitForMessage("named", anotherTeamsQueue)
	labelled := newTask("labelled", 1, "1s")
	labelled.Spec.Template.Labels = map[string]string{v1.LabelQueue: theirs}
	s.create(labelled)
	s.waitForMessage("labelled", anotherTeamsQueue)
	urgent := newTask("urgent", 1, "1s")
	urgent.Spec.Queue, urgent.Spec.Priority = ours, "gpu-high-priority"
	s.create(urgent)
	s.waitForMessage("urgent", "does not accept PriorityClass gpu-high-priority: it accepts gpu-low-priority")
	for _, task := range []string{"named", "labelled", "urgent"} {
		if pods := s.podsOf(task); len(pods) > 0 {
			t.Errorf("%s has Pods", task)
		}
	}
	allowed := newTask("allowed", 1, "1s")
	allowed.Spec.Queue, allowed.Spec.Priority = ours, "gpu-low-priority"
	s.create(allowed)
	s.waitForPhase("allowed", v1.PhaseSucceeded)
	if pods := s.podsOf("allowed"); len(pods) != 1 || pods[0].Labels[v1.LabelQueue] != ours {
		t.Errorf("its Pods: %v", pods)
	}
	_, err := s.tasks().Patch(t.Context(), "allowed", types.MergePatchType, []byte(`{"spec": {"queue": "x"}}`), dryRun())
	checkRefusal(t, err, "spec.queue: Invalid value: is immutable while the task is not suspended: set suspend to true first, or delete the task and recreate it")
}

func TestATaskWaitsForItsQueue(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.startController()
	name := "late-" + s.namespace
	task := newTask("early", 1, "1s")
	task.Spec.Queue = name
	s.create(task)
	s.waitForMessage("early", fmt.Sprintf("there is no GPUQueue %q: create it, or name another one", name))
	moved := newTask("moved", 1, "1s")
	moved.Spec.Queue, moved.Spec.Suspend = "gone-"+s.namespace, new(true)
	s.create(moved)
	if _, err := s.tasks().Patch(t.Context(), "moved", types.MergePatchType, fmt.Appendf(nil, `{"spec": {"queue": %q}}`, name), metav1.PatchOptions{}); err != nil {
		t.Errorf("the queue can't be changed while the task is suspended: %v", err)
	}
	s.suspend("moved", false)
	s.createQueue(name, &v1.GPUQueueSpec{NamespaceSelector: s.onlyHere()})
	s.waitForPhase("early", v1.PhaseSucceeded)
	s.waitForPhase("moved", v1.PhaseSucceeded)
}
