// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	discoveryfake "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// withFinished returns a fixture with a task that has all that a new one must not have.
func withFinished(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.add(newTask("train", "h100", "2", replicas(4), func(task *v1.GPUTask) {
		task.Labels = map[string]string{"team": "vision"}
		task.Annotations = map[string]string{"note": "first", corev1.LastAppliedConfigAnnotation: "{}"}
		task.Finalizers = []string{"falldio.com/any"}
		task.OwnerReferences = []metav1.OwnerReference{{Name: "sweep"}}
		task.ResourceVersion, task.Generation = "7", 3
		task.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		task.Spec.Suspend = new(false)
		task.Status = v1.GPUTaskStatus{Phase: v1.PhaseFailed, Message: "exit code 1"}
	}))
	return f
}

func TestRerun(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"has the number of the run in its name", "rerun", "rerun train"},
		{"has the name that is given", "rerun-named", "rerun train --name other"},
		{"writes what it would create", "rerun-dry", "rerun train --dry-run=client -o yaml"},
		{"asks the API server what it would create", "rerun-server", "rerun train --dry-run=server"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			withFinished(t).golden(test.golden, strings.Fields(test.args)...)
		})
	}
}

func TestRerunTakesTheNextFreeName(t *testing.T) {
	t.Parallel()
	f := withFinished(t)
	long := strings.Repeat("a", 58)
	f.add(
		newTask("train-r2", "h100", "2", func(task *v1.GPUTask) { task.Status.Phase = v1.PhaseSucceeded }),
		newTask(long, "h100", "2", func(task *v1.GPUTask) { task.Status.Phase = v1.PhaseSucceeded }),
	)
	for _, want := range []string{"train-r3", "train-r4"} {
		if err := f.run("rerun", "train"); err != nil || f.out.String() != "gputask.falldio.com/"+want+" created from train\n" {
			t.Errorf("error %v, output %q, want %s", err, f.out.String(), want)
		}
	}
	if err := f.run("rerun", "train-r2", "-o", "name"); err != nil || f.out.String() != "gputask.falldio.com/train-r5\n" {
		t.Errorf("error %v, output %q", err, f.out.String())
	}
	if err := f.run("rerun", long, "-o", "name"); err != nil || f.out.String() != "gputask.falldio.com/"+long[:55]+"-r2\n" {
		t.Errorf("error %v, output %q", err, f.out.String())
	}
}

func TestRerunWritesSeveralTasksAsDocuments(t *testing.T) {
	t.Parallel()
	f := withFinished(t)
	f.add(newTask("other", "h100", "2", func(task *v1.GPUTask) { task.Status.Phase = v1.PhaseSucceeded }))
	if err := f.run("rerun", "train", "other", "--dry-run", "-o", "yaml"); err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(f.out.String(), "---\n")
	if len(documents) != 2 || !strings.Contains(documents[0], "name: train-r2\n") || !strings.Contains(documents[1], "name: other-r2\n") {
		t.Errorf("it writes:\n%s", f.out.String())
	}
}

func TestRerunRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, args, want string }{
		{"no name", "rerun", "rerun needs a name: kubectl gputask rerun NAME... [flags]"},
		{"one name for several", "rerun train other --name x", "--name=x: can only be used with one task, got 2"},
		{"a name that is taken", "rerun train --name train", `creating task train: gputasks.falldio.com "train" already exists`},
		{"waiting for nothing", "rerun train --dry-run --wait", "--wait: there is nothing to wait for with --dry-run=client"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := errorText(withFinished(t).run(strings.Fields(test.args)...)); got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}

// withComponents returns a fixture in which our programs run.
func withComponents(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.kube.Discovery().(*discoveryfake.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "v1.37.1"}
	meta := func(name, namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/name": name}}
	}
	template := func(image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
	}
	f.add(
		&appsv1.Deployment{
			ObjectMeta: meta("gpu-controller", "gpu-controller-system"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Template: template("registry.example.com/gpu-controller:v1")},
			Status: appsv1.DeploymentStatus{ReadyReplicas: 2},
		},
		&appsv1.Deployment{ObjectMeta: meta("gpu-scheduler", "gpu-controller-system"), Spec: appsv1.DeploymentSpec{Template: template("registry.example.com/gpu-scheduler:v1")}},
		&appsv1.Deployment{ObjectMeta: meta("other", "default"), Spec: appsv1.DeploymentSpec{Template: template("other")}},
		&appsv1.DaemonSet{
			ObjectMeta: meta("nodeagent", "nodeagent-system"), Spec: appsv1.DaemonSetSpec{Template: template("registry.example.com/nodeagent@sha256:00")},
			Status: appsv1.DaemonSetStatus{NumberReady: 7, DesiredNumberScheduled: 8},
		},
	)
	return f
}

func TestVersion(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"of the program, the API server and our components", "version", "version"},
		{"of the program alone", "version-client", "version --client"},
		{"with a template", "version-jsonpath", "version -o jsonpath={.clientVersion.gitVersion},{.components[*].image}"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			withComponents(t).golden(test.golden, strings.Fields(test.args)...)
		})
	}
}

func TestVersionOfAClientNeedsNoCluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.env.Connect = cluster.Connect
	if err := f.run("version", "--client", "-o", "yaml", "--kubeconfig=/nowhere"); err != nil || !strings.Contains(f.out.String(), "gitVersion: v0\n") {
		t.Errorf("error %v, output %q", err, f.out.String())
	}
}

func TestVersionLooksIntoTheUsualNamespacesIfItMaySeeNoOthers(t *testing.T) {
	t.Parallel()
	f := withComponents(t)
	f.kube.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetNamespace() == "gpu-controller-system" {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: action.GetResource().Resource}, "", nil)
	})
	if err := f.run("version"); err != nil {
		t.Fatal(err)
	}
	if got := f.out.String(); !strings.Contains(got, "gpu-controller:v1") || strings.Contains(got, "nodeagent") {
		t.Errorf("it shows:\n%s", got)
	}
	if got := f.errOut.String(); !strings.Contains(got, "Not all components can be seen: listing daemonsets") {
		t.Errorf("the note is %q", got)
	}
}
