// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/accounting"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

// controllerProcess is in the command line of gpu-controller and in no other.
const controllerProcess = "/gpu-controller --kubeconfig="

// gpuSeconds are the GPU-seconds of a task.
type gpuSeconds struct{ used, waiting, lost float64 }

// TestUsageIsWhatTheHistorySays runs tasks that succeed, fail, wait and are deleted, kills gpu-controller again and
// again meanwhile, and compares the command's sums with those of all versions of all Pods that etcd has ever held.
func TestUsageIsWhatTheHistorySays(t *testing.T) {
	t.Parallel()
	s := newSuiteOfItsOwn(t, "--nodes=name=h100,model=h100-80gb-hbm3,count=2,gpus=4,gpu-memory=81559Mi",
		"--controller="+programs.Binary("gpu-controller"), "--controller-arg=--usage-period=8s", "--controller-arg=--usage-labels=team", "--controller-arg=--retry-backoff=1s")
	s.keepTime()
	s.createQueue("research", &v1.GPUQueueSpec{NamespaceSelector: s.onlyHere()})
	s.createQueue("default", &v1.GPUQueueSpec{NamespaceSelector: s.onlyHere()})
	s.labelNamespace(v1.LabelQueue, "default")
	s.waitForUsage("the count has begun", time.Time{})

	s.create(newTask("succeeds", 2, "6s"))
	s.create(newTask("fails-once", 1, "3s", failAttempts, "1"))
	loses, stopped, huge := newTask("loses", 1, "forever"), newTask("stopped", 2, "forever"), newTask("waits", 1, "forever")
	stopped.Spec.Queue, stopped.Spec.Template.Labels = "research", map[string]string{"team": "vision"}
	huge.Spec.GPUAmount = "16"
	for _, task := range []*v1.GPUTask{loses, stopped, huge} {
		s.create(task)
	}
	plain := gpuPod("plain", "1")
	plain.Spec.SchedulerName, plain.Spec.NodeSelector = "gpu-scheduler", nil
	plain.Annotations = map[string]string{"simulation.falldio.com/duration": "forever"}
	if _, err := s.cluster.kube.CoreV1().Pods(s.namespace).Create(t.Context(), plain, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.killProcess(controllerProcess)
	s.waitForPhase("stopped", v1.PhaseRunning)
	s.waitForPhase("loses", v1.PhaseRunning)
	s.waitForPhase("succeeds", v1.PhaseSucceeded)
	s.waitForPhase("fails-once", v1.PhaseSucceeded)

	// What is deleted while no controller runs is in the API server's history only.
	s.killProcess(controllerProcess)
	s.deletePod("plain")
	s.deletePod(s.podsOf("loses")[0].Name)
	s.waitForPods("loses", "it goes on", func(pods []corev1.Pod) bool { return len(pods) == 1 && pods[0].Status.Phase == corev1.PodRunning })
	s.waitForUsage("the time until the kill is counted", time.Now())
	s.patchPod(s.podsOf("loses")[0].Name, fmt.Sprintf(`{"metadata": {"annotations": {%q: "yes"}}}`, lastOne))
	s.killProcess(controllerProcess)
	s.deleteTasks("stopped", "loses", "waits")

	s.waitForUsage("all of it is counted", time.Now().Add(2*time.Second))
	want, tolerances := s.history()
	for by, keys := range map[string]func(pod *corev1.Pod) string{
		"task": taskOfPod, "namespace": func(pod *corev1.Pod) string { return pod.Namespace }, "queue": func(pod *corev1.Pod) string { return cmp.Or(pod.Labels[v1.LabelQueue], "default") },
		"label:team": func(pod *corev1.Pod) string { return pod.Labels["team"] },
	} {
		t.Run(by, func(t *testing.T) { s.compareUsage(t, by, keys, want, tolerances) })
	}
}

func taskOfPod(pod *corev1.Pod) string {
	if task := pod.Labels[v1.LabelTask]; task != "" {
		return task
	}
	return "Pod/" + pod.Name
}

func (s *suite) deletePod(name string) {
	s.Helper()
	if err := s.cluster.kube.CoreV1().Pods(s.namespace).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
}

// TestATenantDoesNotSeeTheUsageOfOthers reads the books as a tenant, and as somebody with the Role for that.
func TestATenantDoesNotSeeTheUsageOfOthers(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tenant, ctx := s.newTenant(), t.Context()
	books := tenant.kube.CoreV1().ConfigMaps(accounting.StoreNamespace)
	name := accounting.StoreName(time.Now())
	book := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	read := func() error {
		_, err := books.Get(ctx, name, metav1.GetOptions{})
		return err
	}
	writes := func() map[string]error {
		_, listed := books.List(ctx, metav1.ListOptions{})
		_, created := books.Create(ctx, book, dryCreation())
		_, updated := books.Update(ctx, book, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return map[string]error{
			"list books": listed, "create a book": created, "change a book": updated, "delete a book": books.Delete(ctx, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}),
		}
	}
	refused := writes()
	refused["read a book"] = read()
	for what, err := range refused {
		if !apierrors.IsForbidden(err) {
			t.Errorf("a tenant may %s: %v", what, err)
		}
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "gpu-usage-view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tenant-of-" + s.namespace}},
	}
	bindings := s.cluster.kube.RbacV1().RoleBindings(accounting.StoreNamespace)
	if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bindings.Delete(context.WithoutCancel(ctx), binding.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	s.eventually("the Role is in force", func() (bool, string) { err := read(); return err == nil || apierrors.IsNotFound(err), fmt.Sprint(err) })
	for what, err := range writes() {
		if !apierrors.IsForbidden(err) {
			t.Errorf("who may read books may %s: %v", what, err)
		}
	}
}

// keepTime writes the time into a ConfigMap until the test ends: by that, each revision of etcd has a time.
func (s *suite) keepTime() {
	s.Helper()
	configMaps := s.cluster.kube.CoreV1().ConfigMaps(s.namespace)
	if _, err := configMaps.Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: clockName}}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			patch := fmt.Sprintf(`{"data": {"time": %q}}`, time.Now().UTC().Format(time.RFC3339Nano))
			if _, err := configMaps.Patch(ctx, clockName, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil && ctx.Err() == nil {
				s.Errorf("the clock: %v", err)
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
	s.Cleanup(func() { cancel(); <-done })
}

// usageAnswer is the answer of the command.
type usageAnswer struct {
	CountedUntil time.Time        `json:"countedUntil"`
	Rows         []map[string]any `json:"rows"`
}

func (s *suite) usage(by string) usageAnswer {
	s.Helper()
	command := s.gputask("usage", "--by", by, "--since", "1h", "-o", "json")
	out, errOut, code := command.outcome(s)
	if code != 0 {
		s.Fatalf("exit code %d: %s", code, errOut)
	}
	answer := usageAnswer{}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		s.Fatalf("%v in %s", err, out)
	}
	return answer
}

// waitForUsage waits until everything up to a time is counted.
func (s *suite) waitForUsage(what string, until time.Time) {
	s.Helper()
	s.eventually(what, func() (bool, string) {
		counted := s.usage("queue").CountedUntil
		return counted.After(until), fmt.Sprintf("it is counted until %s, wanted is %s", counted, until)
	})
}

// compareUsage compares the command's rows with the sums of Pods.
func (s *suite) compareUsage(t *testing.T, by string, key func(*corev1.Pod) string, want map[*corev1.Pod]gpuSeconds, tolerances map[*corev1.Pod]float64) {
	t.Helper()
	sums, allowed := map[string]gpuSeconds{}, map[string]float64{}
	for pod, seconds := range want {
		sum := sums[key(pod)]
		sums[key(pod)] = gpuSeconds{sum.used + seconds.used, sum.waiting + seconds.waiting, sum.lost + seconds.lost}
		allowed[key(pod)] += tolerances[pod] + 0.001
	}
	rows := map[string]gpuSeconds{}
	for _, row := range s.usage(by).Rows {
		hours := func(name string) float64 { return 3600 * row[name].(float64) }
		rows[row[by].(string)] = gpuSeconds{hours("gpuHours"), hours("waitingGPUHours"), hours("lostGPUHours")}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		got, want, tolerance := rows[name], sums[name], allowed[name]
		t.Logf("%s %q: %.1f GPU-seconds used, %.1f waited for, %.1f lost; history: %.1f, %.1f, %.1f (± %.1f)", by, name,
			got.used, got.waiting, got.lost, want.used, want.waiting, want.lost, tolerance)
		if math.Abs(got.used-want.used) > tolerance || math.Abs(got.waiting-want.waiting) > tolerance || math.Abs(got.lost-want.lost) > tolerance {
			t.Errorf("%s %q differs", by, name)
		}
	}
	if len(rows) != len(sums) {
		t.Errorf("there are %s, not %s", strings.Join(slices.Sorted(maps.Keys(rows)), ", "), strings.Join(slices.Sorted(maps.Keys(sums)), ", "))
	}
}
