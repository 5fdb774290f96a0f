// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/test/programs"
)

// unusedInTheRun are the granted rights that the run can't need, and why they are granted.
func unusedInTheRun() map[string]string {
	const plugins = "localcluster runs no kubelets, so its agents have no device plugins; test/realnode runs them"
	return map[string]string{
		"gpu-controller: update gputasks/finalizers.falldio.com": "the API server checks it inside the creation of a Pod, if it runs OwnerReferencesPermissionEnforcement, as here: it refuses the Pods of tasks otherwise",
		"gpu-controller: get nodes":                              "it is for Pods that do not stop: TestATaskSaysWhichNodeDoesNotAnswer fails without it",
		"nodeagent: patch pods":                                  plugins,
	}
}

// accounts are the service accounts of our processes.
func accounts() map[string]string {
	return map[string]string{
		"gpu-controller": "system:serviceaccount:gpu-controller-system:gpu-controller",
		"gpu-scheduler":  "system:serviceaccount:gpu-controller-system:gpu-scheduler",
		"nodeagent":      "system:serviceaccount:nodeagent-system:nodeagent",
	}
}

// TestEachProcessHasTheRightsThatItUses compares what the processes request with what
// artifacts/rbac grants them. They do all that they are for, on an API server that does not
// stream lists (as Kubernetes 1.33) and serves the PodGroups of all schedulers.
func TestEachProcessHasTheRightsThatItUses(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "audit.json")
	s := startAudited(t, log)
	s.useEveryRight()
	var grants []*grant
	for process, account := range accounts() {
		grants = append(grants, s.grantsOf(process, account)...)
	}
	var missing []string
	s.eventually("every right has been used", func() (bool, string) {
		requests := readAudit(t, log)
		missing = nil
		for process, account := range accounts() {
			missing = append(missing, check(requests[account], grantsFor(grants, process))...)
		}
		surplus := unused(grants)
		return len(surplus) == 0, fmt.Sprintf("unused are %s; not granted are %s", strings.Join(surplus, ", "), strings.Join(missing, ", "))
	})
	for _, one := range missing {
		t.Error(one)
	}
	for name := range unusedInTheRun() {
		i := slices.IndexFunc(grants, func(g *grant) bool { return g.String() == name })
		switch {
		case i < 0:
			t.Errorf("%q is in the list of what the run can't use, and is not granted", name)
		case grants[i].used:
			t.Errorf("%q is in the list of what the run can't use, and was used", name)
		}
	}
}

// startAudited starts a cluster with an audit log, in which gpu-controller runs as well.
func startAudited(t *testing.T, log string) *suite {
	t.Helper()
	dir, output := t.TempDir(), &programs.Output{}
	cluster, err := startCluster(filepath.Join(dir, "cluster"), output,
		"--audit-log="+log,
		"--apiserver-arg=--feature-gates=WatchList=false,GenericWorkload=true", "--apiserver-arg=--runtime-config=scheduling.k8s.io/v1beta1=true",
		"--apiserver-arg=--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--scheduler-config="+impatientScheduler(t, dir),
		"--controller="+programs.Binary("gpu-controller"), "--controller-arg=--leader-elect=true", "--controller-arg=--usage-period=2s",
		"--nodes=name=move,model=rtx4090,count=2,gpus=2,gpu-memory=24564Mi", "--nodes=name=gang,model=h100-80gb-hbm3,count=1,gpus=2,gpu-memory=81559Mi")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	t.Cleanup(func() {
		if t.Failed() {
			cluster.showLogs(t)
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &suite{T: t, cluster: cluster, namespace: metav1.NamespaceDefault}
}

// unused returns the rights of artifacts/rbac that were not used, but could have been.
func unused(grants []*grant) []string {
	var surplus []string
	for _, g := range grants {
		if !g.builtin && !g.used && unusedInTheRun()[g.String()] == "" {
			surplus = append(surplus, g.String())
		}
	}
	return surplus
}

// grant is one right of a process: a verb on a resource.
type grant struct {
	process               string
	verb, group, resource string
	namespace             string // empty for all
	names                 []string
	builtin               bool // in a role of Kubernetes
	used                  bool
}

// String names the right as in "gpu-scheduler: create pods/eviction".
func (g *grant) String() string {
	text := g.process + ": " + g.verb + " " + g.resource
	if g.group != "" {
		text += "." + g.group
	}
	return text
}

func (g *grant) allows(r *request) bool {
	is := func(granted, requested string) bool { return granted == rbacv1.ResourceAll || granted == requested }
	return is(g.verb, r.verb) && is(g.group, r.group) && is(g.resource, r.resource) && (g.namespace == "" || g.namespace == r.namespace) &&
		(len(g.names) == 0 || slices.Contains(g.names, r.name))
}

func grantsFor(grants []*grant, process string) []*grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g *grant) bool { return g.process != process })
}

// check marks the grants that requests need, and returns those requests that none of them
// allows, or that the API server refused for lack of rights.
func check(requests []request, grants []*grant) []string {
	var problems []string
	for i := range requests {
		r := &requests[i]
		allowed := false
		for _, g := range grants {
			if g.allows(r) {
				g.used, allowed = true, true
			}
		}
		if !allowed || r.refused {
			problems = append(problems, fmt.Sprintf("%s may not %s %s of group %q in namespace %q", grants[0].process, r.verb, r.resource, r.group, r.namespace))
		}
	}
	return problems
}

func TestRequestsAreComparedWithGrants(t *testing.T) {
	t.Parallel()
	granted := func() []*grant {
		return []*grant{
			{process: "p", verb: "create", resource: "events"},
			{process: "p", verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: "home", names: []string{"mine"}},
		}
	}
	tests := map[string]struct {
		request  request
		problems int
		used     []bool
	}{
		"what is granted":                 {request{verb: "create", resource: "events", namespace: "any"}, 0, []bool{true, false}},
		"another verb":                    {request{verb: "patch", resource: "events"}, 1, []bool{false, false}},
		"a subresource":                   {request{verb: "create", resource: "events/status"}, 1, []bool{false, false}},
		"an object by its name":           {request{verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: "home", name: "mine"}, 0, []bool{false, true}},
		"another object":                  {request{verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: "home", name: "other"}, 1, []bool{false, false}},
		"another namespace":               {request{verb: "update", group: "coordination.k8s.io", resource: "leases", namespace: "away", name: "mine"}, 1, []bool{false, false}},
		"what the API server has refused": {request{verb: "create", resource: "events", refused: true}, 1, []bool{true, false}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			grants := granted()
			if problems := check([]request{test.request}, grants); len(problems) != test.problems {
				t.Errorf("problems %q, want %d", problems, test.problems)
			}
			for i, g := range grants {
				if g.used != test.used[i] {
					t.Errorf("%s: used %t, want %t", g, g.used, test.used[i])
				}
			}
		})
	}
}

// grantsOf returns the rights of a process's service account, from the bindings that artifacts/rbac
// has made.
func (s *suite) grantsOf(process, account string) []*grant {
	s.Helper()
	rbac, ctx := s.cluster.kube.RbacV1(), s.Context()
	clusterWide, err := rbac.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	local, localErr := rbac.RoleBindings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err := errors.Join(err, localErr); err != nil {
		s.Fatal(err)
	}
	var grants []*grant
	for i := range clusterWide.Items {
		if binding := &clusterWide.Items[i]; isBound(binding.Subjects, account) {
			grants = append(grants, s.grantsIn(process, "", binding.RoleRef)...)
		}
	}
	for i := range local.Items {
		if binding := &local.Items[i]; isBound(binding.Subjects, account) {
			grants = append(grants, s.grantsIn(process, binding.Namespace, binding.RoleRef)...)
		}
	}
	return grants
}

func isBound(subjects []rbacv1.Subject, account string) bool {
	return slices.ContainsFunc(subjects, func(subject rbacv1.Subject) bool {
		return subject.Kind == rbacv1.ServiceAccountKind && "system:serviceaccount:"+subject.Namespace+":"+subject.Name == account
	})
}

// grantsIn returns the rights in a role that is bound in a namespace; everywhere if it is empty.
func (s *suite) grantsIn(process, namespace string, role rbacv1.RoleRef) []*grant {
	s.Helper()
	rules, labels, err := s.rulesOf(s.Context(), namespace, role)
	if err != nil {
		s.Fatal(err)
	}
	var grants []*grant
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					grants = append(grants, &grant{
						process: process, verb: verb, group: group, resource: resource, namespace: namespace, names: rule.ResourceNames,
						builtin: labels["kubernetes.io/bootstrapping"] != "",
					})
				}
			}
		}
	}
	return grants
}

func (s *suite) rulesOf(ctx context.Context, namespace string, role rbacv1.RoleRef) ([]rbacv1.PolicyRule, map[string]string, error) {
	if role.Kind == "ClusterRole" {
		got, err := s.cluster.kube.RbacV1().ClusterRoles().Get(ctx, role.Name, metav1.GetOptions{})
		if err != nil {
			return nil, nil, err
		}
		return got.Rules, got.Labels, nil
	}
	got, err := s.cluster.kube.RbacV1().Roles(namespace).Get(ctx, role.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	return got.Rules, got.Labels, nil
}
