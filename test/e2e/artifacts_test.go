// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

// TestArtifactsApply applies what the README tells users to apply, twice, with
// client-side kubectl apply. The cluster is its own: which schedulers may place Pods is then as shipped.
func TestArtifactsApply(t *testing.T) {
	t.Parallel()
	s := newSuiteOfItsOwn(t, "--controller="+programs.Binary("gpu-controller"))
	for range 2 {
		if output, err := s.cluster.kubectl(t.Context(), "apply", "-k", "artifacts"); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	deployment, err := s.cluster.kube.AppsV1().Deployments("gpu-controller-system").Get(t.Context(), "gpu-controller", metav1.GetOptions{})
	if err != nil || *deployment.Spec.Replicas != 2 {
		t.Errorf("the Deployment: %v, %v", deployment, err)
	}
	s.eventually("the Deployment's Pods are admitted by the restricted Pod security standard", func() (bool, string) {
		deployment, err = s.cluster.kube.AppsV1().Deployments("gpu-controller-system").Get(t.Context(), "gpu-controller", metav1.GetOptions{})
		return err == nil && deployment.Status.ReadyReplicas == 2, deployment.Status.String()
	})
}

func TestKubectlShowsWhatPeopleLookFor(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.create(newTask("train", 2, "forever"))
	s.waitForPhase("train", v1.PhaseRunning)
	output, err := s.cluster.kubectl(t.Context(), "-n", s.namespace, "get", "gt", "-o", "wide")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(output, "\n")
	if got, want := strings.Fields(lines[0]), "NAME PHASE GPU GPUS/POD PODS RUNNING RESTARTS AGE PRIORITY QUEUE PROFILE POOL MESSAGE"; strings.Join(got, " ") != want {
		t.Errorf("columns %v, want %s", got, want)
	}
	if !strings.Contains(lines[1], "train   Running   h100-80gb-hbm3   1          2      2") {
		t.Errorf("unexpected row: %s", lines[1])
	}
	all, err := s.cluster.kubectl(t.Context(), "-n", s.namespace, "get", "all")
	if err != nil || !strings.Contains(all, "gputask.falldio.com/train") {
		t.Errorf("kubectl get all does not show the task: %v\n%s", err, all)
	}
}

func TestKubectlExplainsEveryField(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	for _, what := range []string{"gputask.spec", "gputask.spec.dependsOn", "gputask.spec.rescheduling", "gputask.status", "gputask.status.lastMove",
		"moveplan", "moveplan.spec", "moveplan.spec.for", "moveplan.spec.places", "moveplan.spec.moves", "moveplan.spec.moves.from", "moveplan.spec.gain",
		"moveplan.status", "moveplan.status.moves",
		"gpuqueue", "gpuqueue.spec", "gpuqueue.spec.resources", "gpuqueue.spec.reclaim", "gpuqueue.status", "gpuqueue.status.summary",
		"gpuqueue.status.resources", "gpuqueue.status.usage"} {
		output, err := s.cluster.kubectl(t.Context(), "explain", what)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(output, "<no description>") {
			t.Errorf("kubectl explain %s has fields without a description:\n%s", what, output)
		}
	}
}

// TestTheControllerMayDoOnlyWhatItNeeds checks the controller's rights, including those
// that its role must not grant.
func TestTheControllerMayDoOnlyWhatItNeeds(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const account = "system:serviceaccount:gpu-controller-system:gpu-controller"
	tests := map[string]struct {
		verb, group, resource, subresource string
		want                               bool
	}{
		"create Pods":            {"create", "", "pods", "", true},
		"create Services":        {"create", "", "services", "", true},
		"delete Services":        {"delete", "", "services", "", false},
		"write a task's status":  {"update", v1.GroupName, "gputasks", "status", true},
		"change a task":          {"update", v1.GroupName, "gputasks", "", false},
		"create a task":          {"create", v1.GroupName, "gputasks", "", false},
		"change a Pod":           {"update", "", "pods", "", false},
		"look into a Pod":        {"create", "", "pods", "exec", false},
		"read secrets":           {"get", "", "secrets", "", false},
		"propose moves":          {"create", v1.GroupName, "moveplans", "", true},
		"say how far they are":   {"update", v1.GroupName, "moveplans", "status", true},
		"approve moves":          {"patch", v1.GroupName, "moveplans", "", false},
		"say what queues use":    {"update", v1.GroupName, "gpuqueues", "status", true},
		"change a queue":         {"update", v1.GroupName, "gpuqueues", "", false},
		"annotate a node":        {"patch", "", "nodes", "", true}, // an admission policy confines it
		"change a node":          {"update", "", "nodes", "", false},
		"delete a node":          {"delete", "", "nodes", "", false},
		"give itself more power": {"update", "rbac.authorization.k8s.io", "clusterroles", "", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			review, err := s.cluster.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User: account, Groups: []string{"system:serviceaccounts", "system:authenticated"},
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: s.namespace, Verb: tc.verb, Group: tc.group, Resource: tc.resource, Subresource: tc.subresource,
					},
				},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed != tc.want {
				t.Errorf("allowed: %v, want %v (%s)", review.Status.Allowed, tc.want, review.Status.Reason)
			}
		})
	}
}

// TestWhoSeesTheClusterReachesNoPods: the proxy of a Pod leads to all that it serves.
func TestWhoSeesTheClusterReachesNoPods(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const group = "gpu-users-of-a-test"
	subjects := []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group}}
	view := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: group}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gputasks-cluster-view"},
	}
	if _, err := s.cluster.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), view, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const agents = "nodeagent-system"
	metrics := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: group}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "nodeagent-metrics"},
	}
	if _, err := s.cluster.kube.RbacV1().RoleBindings(agents).Create(t.Context(), metrics, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := errors.Join(
			s.cluster.kube.RbacV1().ClusterRoleBindings().Delete(ctx, group, metav1.DeleteOptions{}),
			s.cluster.kube.RbacV1().RoleBindings(agents).Delete(ctx, group, metav1.DeleteOptions{}),
		)
		if err != nil {
			t.Error(err)
		}
	})
	may := func(namespace, resource, subresource string) bool {
		review, err := s.cluster.kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "somebody", Groups: []string{group, "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: resource, Subresource: subresource},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	s.eventually("the roles are in force", func() (bool, string) {
		return may(s.namespace, "pods", "") && may(agents, "pods", "proxy"), "they are not"
	})
	if may(s.namespace, "pods", "proxy") {
		t.Error("the proxy of any Pod may be used")
	}
}
