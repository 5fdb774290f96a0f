// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func trainOf(replicas int32, template *corev1.PodTemplateSpec) taskBuilder {
	return makeTask("train").replicas(replicas).with(func(t *v1.GPUTask) { t.Spec.Template = template })
}

// environment returns the variables of a container by their names.
func environment(container *corev1.Container) map[string]string {
	variables := map[string]string{}
	for _, variable := range container.Env {
		variables[variable.Name] = variable.Value
	}
	return variables
}

func TestMembersOfAGangFindEachOther(t *testing.T) {
	t.Parallel()
	task := trainOf(4, nil).with(func(t *v1.GPUTask) { t.Spec.GPUAmount = "8" })
	pod := task.pod(2, 0).Pod
	if got := pod.Spec.Hostname + "." + pod.Spec.Subdomain; got != "train-2.train" {
		t.Errorf("the Pod's name in DNS is %s", got)
	}
	want := map[string]string{
		"MASTER_ADDR": "train-0.train", "MASTER_PORT": "29500",
		"RANK": "2", "NODE_RANK": "2", "JOB_COMPLETION_INDEX": "2", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "1",
		"PET_NODE_RANK": "2", "PET_NNODES": "4", "PET_NPROC_PER_NODE": "8",
		"PET_MASTER_ADDR": "$(MASTER_ADDR)", "PET_MASTER_PORT": "$(MASTER_PORT)",
		"JAX_COORDINATOR_ADDRESS": "$(MASTER_ADDR):$(MASTER_PORT)", "JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": "2",
	}
	if diff := cmp.Diff(want, environment(&pod.Spec.Containers[0])); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestTorchrunWaitsForMinAvailable(t *testing.T) {
	t.Parallel()
	task := trainOf(6, nil).minAvailable(4).with(func(t *v1.GPUTask) { t.Spec.GPUAmount = "0.5" })
	got := environment(&task.pod(0, 0).Spec.Containers[0])
	for name, want := range map[string]string{
		"PET_NNODES": "4:6", "PET_NPROC_PER_NODE": "1", "PET_RDZV_BACKEND": "c10d",
		"PET_RDZV_ENDPOINT": "$(MASTER_ADDR):$(MASTER_PORT)", "PET_RDZV_ID": "train", "WORLD_SIZE": "6",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestWhatTheTemplateSetsStays(t *testing.T) {
	t.Parallel()
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "wait"}},
		Containers: []corev1.Container{
			{Name: "gpu-task", Env: []corev1.EnvVar{
				{Name: "MASTER_PORT", Value: "1234"},
				{Name: "RANK", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['falldio.com/index']"}}},
			}},
			{Name: "sidecar"},
		},
	}}
	spec := trainOf(2, template).pod(1, 0).Spec
	work := spec.Containers[0]
	if diff := cmp.Diff(template.Spec.Containers[0].Env, work.Env[:2]); diff != "" {
		t.Errorf("the template's variables (-want +got):\n%s", diff)
	}
	for _, variable := range work.Env[2:] {
		if variable.Name == "MASTER_PORT" || variable.Name == "RANK" {
			t.Errorf("%s is set twice", variable.Name)
		}
	}
	for _, container := range []corev1.Container{spec.InitContainers[0], spec.Containers[1]} {
		if got := environment(&container); got["RANK"] != "1" || got["MASTER_PORT"] != "29500" {
			t.Errorf("container %s has %v", container.Name, got)
		}
	}
	if len(template.Spec.Containers[1].Env) > 0 {
		t.Error("the task's template was changed")
	}
}

func TestHostsThatTheTemplateNames(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec                        corev1.PodSpec
		hostname, subdomain, master string
		service                     bool
	}{
		"a task without a template has a Service": {
			corev1.PodSpec{}, "train-1", "train", "train-0.train", true,
		},
		"a subdomain is a Service of the user's": {
			corev1.PodSpec{Subdomain: "mine"}, "train-1", "mine", "train-0.mine", false,
		},
		"one host name for all Pods leads to none of them": {
			corev1.PodSpec{Hostname: "host"}, "host", "", "", false,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := trainOf(2, &corev1.PodTemplateSpec{Spec: tc.spec})
			spec := task.pod(1, 0).Spec
			variables := environment(&spec.Containers[0])
			if spec.Hostname != tc.hostname || spec.Subdomain != tc.subdomain || variables["MASTER_ADDR"] != tc.master {
				t.Errorf("host name %q, subdomain %q, MASTER_ADDR %q", spec.Hostname, spec.Subdomain, variables["MASTER_ADDR"])
			}
			if variables["RANK"] != "1" {
				t.Errorf("RANK is %q", variables["RANK"])
			}
			if got := NeedsService(task.GPUTask); got != tc.service {
				t.Errorf("it needs a Service: %v", got)
			}
		})
	}
}

func TestNoRendezvous(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]taskBuilder{
		"a task of one Pod":                 makeTask("train"),
		"a gang that does not want to meet": makeTask("train").replicas(2).with(func(t *v1.GPUTask) { t.Spec.Rendezvous = v1.RendezvousNone }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := task.pod(0, 0).Spec
			if spec.Hostname != "" || spec.Subdomain != "" || len(spec.Containers[0].Env) > 0 || NeedsService(task.GPUTask) {
				t.Errorf("host name %q, subdomain %q, environment %v", spec.Hostname, spec.Subdomain, spec.Containers[0].Env)
			}
		})
	}
}

func TestTheServiceOfAGang(t *testing.T) {
	t.Parallel()
	task := makeTask("train").replicas(2)
	want := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train", Namespace: "default", Labels: map[string]string{"app": "gpu-task", "falldio.com/gputask": "train"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(task, v1.TaskKind())},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: "None", PublishNotReadyAddresses: true,
			Selector: map[string]string{"falldio.com/gputask": "train"},
		},
	}
	in := input(task, nil)
	in.HasService = false
	plan, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, plan.CreateService); diff != "" {
		t.Errorf("Service (-want +got):\n%s", diff)
	}
	if plan, err = Decide(input(task, nil)); err != nil || plan.CreateService != nil {
		t.Errorf("another Service is created: %v, %v", plan.CreateService, err)
	}
}

func TestNamesOfServicesAndHosts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 57)
	for name, want := range map[string]string{
		"train":    "train",
		long + "a": long + "a",
		"3d":       "t-3d-",
		"v1.2":     "t-v1-2-",
		long + ".": "", // not a task's name
	} {
		task := makeTask(name).replicas(4096)
		got := ServiceName(task.GPUTask)
		if !strings.HasPrefix(got, want) {
			t.Errorf("the Service of %s is %s", name, got)
		}
		if problems := validation.IsDNS1035Label(got); problems != nil {
			t.Errorf("the Service of %s is %s: %v", name, got, problems)
		}
		if problems := validation.IsDNS1123Label(hostName(task.GPUTask, "", 4095)); problems != nil {
			t.Errorf("the host of %s is %s: %v", name, hostName(task.GPUTask, "", 4095), problems)
		}
	}
	if one, other := makeTask("a.b"), makeTask("a-b."); ServiceName(one.GPUTask) == ServiceName(other.GPUTask) {
		t.Error("two tasks have a Service of the same name")
	}
}
