// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// allow creates a service account and binds cluster roles to it.
func (s *suite) allow(account string, roles ...string) {
	s.Helper()
	if _, err := s.cluster.kube.CoreV1().ServiceAccounts(s.namespace).Create(s.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	bindings := s.cluster.kube.RbacV1().ClusterRoleBindings()
	for _, role := range roles {
		created, err := bindings.Create(s.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: s.namespace + "-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: account}},
		}, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() {
			if err := bindings.Delete(context.WithoutCancel(s.Context()), created.Name, metav1.DeleteOptions{}); err != nil {
				s.Error(err)
			}
		})
	}
}

func TestMetricsAndProfilesAreForThoseWhoMayReadThem(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.apply("-f", "artifacts/secure-metrics/rbac.yaml")
	profiler := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-profiler"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/debug/pprof/*"}, Verbs: []string{"get"}}},
	}
	if _, err := s.cluster.kube.RbacV1().ClusterRoles().Create(t.Context(), profiler, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.cluster.kube.RbacV1().ClusterRoles().Delete(context.WithoutCancel(s.Context()), profiler.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	s.allow("prometheus", "gpu-metrics-reader")
	s.allow("developer", profiler.Name)
	s.allow("stranger")
	server := "https://" + s.startController("--metrics-bind-address=127.0.0.1:0", "--metrics-secure", "--profiling").address()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, test := range []struct {
		account, path string
		status        int
		says          string
	}{
		{"prometheus", "/metrics", http.StatusOK, "gpu_controller_tasks{"},
		{"prometheus", "/debug/pprof/goroutine?debug=1", http.StatusForbidden, "cannot get path \"/debug/pprof/goroutine\""},
		{"developer", "/debug/pprof/goroutine?debug=1", http.StatusOK, "goroutine profile:"},
		{"developer", "/metrics", http.StatusForbidden, "developer\" cannot get path \"/metrics\""},
		{"stranger", "/metrics", http.StatusForbidden, "forbidden"},
		{"", "/metrics", http.StatusUnauthorized, "Unauthorized"},
		{"", "/debug/pprof/", http.StatusUnauthorized, "Unauthorized"},
		{"", "/healthz", http.StatusOK, "ok"},
		{"", "/readyz", http.StatusOK, "ok"},
	} {
		token := ""
		if test.account != "" {
			token = s.tokenOf(test.account)
		}
		s.eventually(fmt.Sprintf("%q gets %d from %s", test.account, test.status, test.path), func() (bool, string) {
			status, text, err := get(t.Context(), client, server+test.path, token)
			return err == nil && status == test.status && strings.Contains(text, test.says), fmt.Sprintf("%d %.200s, error %v", status, text, err)
		})
	}
}
