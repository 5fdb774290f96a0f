// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

const (
	// stockScheduler is a kube-scheduler that runs beside gpu-scheduler.
	stockScheduler   = "stock-scheduler"
	schedulersPolicy = "artifacts/rbac/schedulers-policy.yaml"
	whoPlacesGPUs    = "spec.schedulerName of a Pod that asks for GPUs must be one of gpu-scheduler, gpu-scheduler-spreading, gpu-scheduler-network, and is "
)

// TestNobodyWalksPastTheScheduler has two teams with a queue each, and a real kube-scheduler beside gpu-scheduler,
// which binds whatever fits. One team attacks the other one's queue with it: first with the shipped policy, and then
// without.
func TestNobodyWalksPastTheScheduler(t *testing.T) {
	t.Parallel()
	s := newSuiteOfItsOwn(t, "--controller="+programs.Binary("gpu-controller"), "--controller-arg=--retry-backoff=1s",
		"--nodes=name=h100,model=h100-80gb-hbm3,count=3,gpus=8,gpu-memory=81559Mi")
	s.startStockScheduler()
	victim, evil := s.inNamespace("victim"), s.inNamespace("evil")
	victim.createQueue("victim", &v1.GPUQueueSpec{NamespaceSelector: victim.onlyHere(), Resources: []v1.GPUQueueResource{{GPU: v1.AnyGPU, Limit: new(int32(8))}}})
	evil.createQueue("evil", &v1.GPUQueueSpec{NamespaceSelector: evil.onlyHere(), Resources: []v1.GPUQueueResource{{GPU: v1.AnyGPU, Limit: new(int32(2))}}})
	mallory := evil.newTenant()
	s.applyShippedNames(mallory, evil.namespace)

	evil.checkWhoPlaces(mallory)
	walker := newTask("walker", 1, "forever")
	walker.Spec.GPUAmount, walker.Spec.Template.Spec.SchedulerName = "8", stockScheduler
	evil.create(walker)
	evil.waitForMessage("walker", whoPlacesGPUs+stockScheduler)
	if pods := evil.podsOf("walker"); len(pods) != 0 {
		t.Errorf("%d Pods were created", len(pods))
	}

	// Where the policy is not installed, or was not yet when Pods were bound.
	s.mustKubectl("delete", "validatingadmissionpolicybinding", "gpu-schedulers")
	pod := attackingPod("attack", "8")
	pod.Labels = map[string]string{v1.LabelQueue: "victim"}
	pod.Annotations = map[string]string{"simulation.falldio.com/duration": "forever"}
	s.eventually("the stock scheduler runs 8 GPUs for the label of the victim's queue", func() (bool, string) {
		_, err := mallory.kube.CoreV1().Pods(evil.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		running, getErr := mallory.kube.CoreV1().Pods(evil.namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		return getErr == nil && running.Status.Phase == corev1.PodRunning, fmt.Sprint(err, getErr)
	})
	evil.waitForPhase("walker", v1.PhaseRunning)
	evil.waitForQueue("evil", "it pays for both", func(queue *v1.GPUQueue) bool {
		return queue.Status.Summary != nil && queue.Status.Summary.Used == "16"
	})
	victim.waitForQueue("victim", "it pays for nothing", func(queue *v1.GPUQueue) bool {
		return queue.Status.Summary != nil && queue.Status.Summary.Used == "0" && queue.Status.Running == 0
	})
	whole := newTask("whole", 1, "forever")
	whole.Spec.GPUAmount = "8"
	victim.create(whole)
	victim.waitForPhase("whole", v1.PhaseRunning)
	evil.create(newTask("late", 1, "forever"))
	evil.waitForMessage("late", "queue evil holds 16 of at most 2 GPUs")

	// The Pods that are there can be changed, and deleted.
	s.applyShippedNames(mallory, evil.namespace)
	pods := mallory.kube.CoreV1().Pods(evil.namespace)
	_, err := pods.Patch(t.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata": {"labels": {"theirs": "x"}}}`), metav1.PatchOptions{})
	checkRefusal(t, err, "")
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}

	evil.checkNamesAreSet(mallory)
}

// attackingPod returns a Pod with GPUs for the stock scheduler.
func attackingPod(name, gpus string) *corev1.Pod {
	pod := gpuPod(name, gpus)
	pod.Spec.SchedulerName, pod.Spec.NodeSelector = stockScheduler, nil
	return pod
}

// checkWhoPlaces attacks with all ways to ask for GPUs.
func (s *suite) checkWhoPlaces(tenant *tenant) {
	s.Helper()
	limits := func(resourceName corev1.ResourceName) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{resourceName: resource.MustParse("1")}
		}
	}
	by := func(scheduler string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.SchedulerName = scheduler }
	}
	for what, test := range map[string]struct {
		change  func(*corev1.Pod)
		refusal string
	}{
		"whole GPUs":           {func(*corev1.Pod) {}, whoPlacesGPUs + stockScheduler},
		"shares":               {limits(v1.ResourceGPUPercent), whoPlacesGPUs + stockScheduler},
		"slices":               {limits("falldio.com/mig-1g.10gb"), whoPlacesGPUs + stockScheduler},
		"no scheduler":         {by(""), whoPlacesGPUs + "default-scheduler, as in every Pod that names none"},
		"one of ours":          {by("gpu-scheduler-network"), ""},
		"no GPUs":              {limits(corev1.ResourceCPU), ""},
		"GPUs of another kind": {limits(v1.ResourceNVIDIAGPU), ""},
		"an init container": {func(pod *corev1.Pod) {
			pod.Spec.InitContainers = pod.Spec.Containers
			pod.Spec.Containers = []corev1.Container{{Name: "y", Image: "x"}}
		}, whoPlacesGPUs + stockScheduler},
	} {
		pod := attackingPod("attack", "1")
		test.change(pod)
		_, err := tenant.kube.CoreV1().Pods(s.namespace).Create(s.Context(), pod, dryCreation())
		s.Log(what)
		checkRefusal(s.T, err, test.refusal)
	}
}

// checkNamesAreSet installs the policy that sets the name of the scheduler.
func (s *suite) checkNamesAreSet(tenant *tenant) {
	s.Helper()
	s.mustKubectl("apply", "-k", "artifacts/scheduler-name")
	create := func(change func(*corev1.Pod)) (string, error) {
		pod := attackingPod("named", "1")
		change(pod)
		created, err := tenant.kube.CoreV1().Pods(s.namespace).Create(s.Context(), pod, dryCreation())
		return created.Spec.SchedulerName, err
	}
	unnamed := func(pod *corev1.Pod) { pod.Spec.SchedulerName = "" }
	s.eventually("a Pod that names no scheduler gets ours", func() (bool, string) {
		name, err := create(unnamed)
		return err == nil && name == "gpu-scheduler", fmt.Sprint(name, err)
	})
	if name, err := create(func(pod *corev1.Pod) { unnamed(pod); pod.Spec.Containers[0].Resources.Limits = nil }); name != "default-scheduler" || err != nil {
		s.Errorf("a Pod without GPUs gets scheduler %q: %v", name, err)
	}
	_, err := create(func(*corev1.Pod) {})
	checkRefusal(s.T, err, whoPlacesGPUs+stockScheduler)
}

// applyShippedNames installs the policy as it is shipped, instead of localcluster's, and returns when it is in force
// for a tenant.
func (s *suite) applyShippedNames(tenant *tenant, namespace string) {
	s.Helper()
	s.mustKubectl("apply", "-f", schedulersPolicy)
	pod := gpuPod("probe", "1")
	s.eventually("the policy is in force", func() (bool, string) {
		_, err := tenant.kube.CoreV1().Pods(namespace).Create(s.Context(), pod, dryCreation())
		return err != nil, "a Pod that names no scheduler is accepted"
	})
}

func (s *suite) mustKubectl(args ...string) {
	s.Helper()
	if output, err := s.cluster.kubectl(s.Context(), args...); err != nil {
		s.Fatalf("%v\n%s", err, output)
	}
}

// inNamespace returns a suite for a new namespace of the same cluster.
func (s *suite) inNamespace(name string) *suite {
	s.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.cluster.kube.CoreV1().Namespaces().Create(s.Context(), object, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.eventually("namespace "+name+" has a service account", func() (bool, string) {
		_, err := s.cluster.kube.CoreV1().ServiceAccounts(name).Get(s.Context(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return &suite{T: s.T, cluster: s.cluster, namespace: name}
}

// startStockScheduler runs Kubernetes' own scheduler until the end of the test.
func (s *suite) startStockScheduler() {
	s.Helper()
	config := filepath.Join(s.TempDir(), "stock.yaml")
	text := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s}
leaderElection: {leaderElect: false}
profiles: [{schedulerName: %s}]
`, s.cluster.Kubeconfig(), stockScheduler)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	command, log := exec.Command(programs.Binary("localcluster"), "component", "kube-scheduler", "--config="+config, "--secure-port=0"), &programs.Output{}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = stopProcess(command) // it ends with an error when it is told to
		if s.Failed() {
			s.Logf("log of %s:\n%s", stockScheduler, log)
		}
	})
}
