// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	typedv1 "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/typed/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

// limit is how long a test waits for something that normally takes a second or
// two.
const limit = 90 * time.Second

// suite is a test's namespace in a cluster.
type suite struct {
	*testing.T
	cluster   *testCluster
	namespace string
}

// newSuite creates a namespace that is deleted at the end of the test.
func newSuite(t *testing.T) *suite {
	t.Helper()
	created, err := shared.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{T: t, cluster: shared, namespace: created.Name}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := shared.kube.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	s.eventually("the namespace has a service account", func() (bool, string) {
		_, err := shared.kube.CoreV1().ServiceAccounts(s.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return s
}

// newSuiteWithController also runs a controller for the namespace.
func newSuiteWithController(t *testing.T, args ...string) *suite {
	t.Helper()
	s := newSuite(t)
	s.startController(args...)
	return s
}

// controller is a running gpu-controller.
type controller struct {
	s       *suite
	command *exec.Cmd
	log     *programs.Output
}

// startController runs a controller that watches only the suite's namespace. It is
// stopped at the end of the test, and its log is shown if the test failed.
func (s *suite) startController(args ...string) *controller {
	s.Helper()
	args = append([]string{
		"--kubeconfig=" + s.cluster.controllerKubeconfig(), "--namespace=" + s.namespace,
		"--leader-elect=false", "--metrics-bind-address=0", "--retry-backoff=1s", "--max-retry-backoff=4s", "-v=2",
	}, args...)
	c := &controller{s: s, command: exec.Command(programs.Binary(raceController), args...), log: &programs.Output{}}
	c.command.Stdout, c.command.Stderr = c.log, c.log
	if err := c.command.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if c.command.ProcessState == nil {
			if err := stopProcess(c.command); err != nil {
				s.Errorf("the controller ended with: %v", err)
			}
		}
		if strings.Contains(c.log.String(), "DATA RACE") {
			s.Error("the race detector found something: see the log")
		}
		if s.Failed() {
			s.Logf("log of the controller:\n%s", c.log)
		}
	})
	return c
}

// kill kills a controller with SIGKILL.
func (c *controller) kill() {
	c.s.Helper()
	if err := c.command.Process.Kill(); err != nil {
		c.s.Fatal(err)
	}
	_ = c.command.Wait() // its exit status is the signal's
}

func (s *suite) tasks() typedv1.GPUTaskInterface {
	return s.cluster.tasks.FalldioV1().GPUTasks(s.namespace)
}

// eventually waits until a condition holds; its text describes the current state
// otherwise.
func (s *suite) eventually(what string, holds func() (bool, string)) {
	s.Helper()
	deadline := time.Now().Add(limit)
	for {
		ok, instead := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("not within %v: %s; instead: %s", limit, what, instead)
		}
		time.Sleep(pollEvery)
	}
}

// create submits a task.
func (s *suite) create(task *v1.GPUTask) *v1.GPUTask {
	s.Helper()
	created, err := s.tasks().Create(s.Context(), task, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		s.Fatal(err)
	}
	return created
}

func (s *suite) get(name string) *v1.GPUTask {
	s.Helper()
	task, err := s.tasks().Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return task
}

// waitForPhase waits until a task has the phase and returns it.
func (s *suite) waitForPhase(name string, phase v1.GPUTaskPhase) *v1.GPUTask {
	s.Helper()
	return s.waitForTask(name, "phase "+string(phase), func(task *v1.GPUTask) bool { return task.Status.Phase == phase })
}

// waitForMessage waits until a task's message contains the text.
func (s *suite) waitForMessage(name, text string) {
	s.Helper()
	s.waitForTask(name, fmt.Sprintf("message %q", text), func(task *v1.GPUTask) bool {
		return strings.Contains(task.Status.Message, text)
	})
}

func (s *suite) waitForTask(name, what string, holds func(*v1.GPUTask) bool) *v1.GPUTask {
	s.Helper()
	var task *v1.GPUTask
	s.eventually(fmt.Sprintf("GPUTask %s has %s", name, what), func() (bool, string) {
		task = s.get(name)
		return holds(task), fmt.Sprintf("%s: %s %+v", task.Status.Phase, task.Status.Message, task.Status)
	})
	return task
}

// podsOf returns the Pods of a task, sorted by name.
func (s *suite) podsOf(task string) []corev1.Pod {
	s.Helper()
	list, err := s.cluster.kube.CoreV1().Pods(s.namespace).List(s.Context(), metav1.ListOptions{LabelSelector: v1.LabelTask + "=" + task})
	if err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// waitForPods waits until a task has Pods for which the condition holds.
func (s *suite) waitForPods(task, what string, holds func([]corev1.Pod) bool) []corev1.Pod {
	s.Helper()
	var pods []corev1.Pod
	s.eventually(fmt.Sprintf("the Pods of GPUTask %s: %s", task, what), func() (bool, string) {
		pods = s.podsOf(task)
		var states []string
		for i := range pods {
			states = append(states, fmt.Sprintf("%s %s %s", pods[i].Name, pods[i].Status.Phase, pods[i].UID))
		}
		return holds(pods), strings.Join(states, ", ")
	})
	return pods
}

// waitForEvent waits until the task has an event with the reason.
func (s *suite) waitForEvent(task *v1.GPUTask, reason string) corev1.Event {
	s.Helper()
	var found corev1.Event
	s.eventually(fmt.Sprintf("GPUTask %s has an event %s", task.Name, reason), func() (bool, string) {
		events, err := s.cluster.kube.CoreV1().Events(s.namespace).List(s.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(task.UID)})
		if err != nil {
			return false, err.Error()
		}
		var reasons []string
		for i := range events.Items {
			reasons = append(reasons, events.Items[i].Reason)
			if events.Items[i].Reason == reason {
				found = events.Items[i]
				return true, ""
			}
		}
		return false, strings.Join(reasons, ", ")
	})
	return found
}

// newTask returns a task whose Pods run for the duration on the simulated
// nodes; annotations are pairs of names and values for its Pods.
func newTask(name string, replicas int32, duration string, annotations ...string) *v1.GPUTask {
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"simulation.falldio.com/duration": duration,
	}}}
	for i := 0; i+1 < len(annotations); i += 2 {
		template.Annotations[annotations[i]] = annotations[i+1]
	}
	return &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.GPUTaskSpec{GPU: "h100-80gb-hbm3", GPUAmount: "1", Replicas: &replicas, Template: template},
	}
}

const failAttempts = "simulation.falldio.com/fail-attempts"
