// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// A framework is what programs read that people bring along.
type framework struct {
	// requires are variables without which the framework fails, or does not notice that it is in a gang.
	requires []string
	// forbids are variables that the framework would take for somebody else's doing.
	forbids []string
}

// frameworks are those that docs/coming-from.md and docs/gputask.md name, as their sources and manuals describe them.
var frameworks = map[string]framework{
	// torch.distributed.init_process_group without arguments:
	// https://pytorch.org/docs/stable/distributed.html#environment-variable-initialization
	"PyTorch": {requires: []string{"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}},
	// Its options, in capital letters after PET_: https://pytorch.org/docs/stable/elastic/run.html
	"torchrun": {requires: []string{"PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT"}},
	// deepspeed.init_distributed looks for MPI if one of them is missing.
	"DeepSpeed": {requires: []string{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"}},
	// Without LOCAL_RANK, accelerate.PartialState is that of a single process, and so is transformers.Trainer.
	"Accelerate": {requires: []string{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"}},
	// LightningEnvironment: with LOCAL_RANK, somebody else has started the processes of all GPUs.
	"Lightning, one GPU in each Pod": {requires: []string{"MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK"}},
	"Lightning, several GPUs":        {requires: []string{"MASTER_ADDR", "MASTER_PORT", "NODE_RANK"}, forbids: []string{"LOCAL_RANK"}},
	// What Kubeflow's TrainJob sets for jax.distributed.initialize.
	"JAX": {requires: []string{"JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"}},
	// ray start --address=$GPUTASK_LEADER_ADDR:6379. RAY_ADDRESS would make the head look for another one.
	"Ray":             {requires: []string{"GPUTASK_LEADER_ADDR"}, forbids: []string{"RAY_ADDRESS"}},
	"an array":        {requires: []string{"JOB_COMPLETION_INDEX"}, forbids: []string{"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"}},
	"a Pod by itself": {forbids: []string{"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"}},
}

func TestFrameworksFindWhatTheyRead(t *testing.T) {
	t.Parallel()
	gangOf := func(gpus string) taskBuilder {
		return makeTask("train").replicas(4).with(func(t *v1.GPUTask) { t.Spec.GPUAmount = gpus })
	}
	tests := map[string]struct {
		task       taskBuilder
		index      int
		frameworks []string
		// want are values, with references to other variables resolved as the kubelet does.
		want map[string]string
	}{
		"a gang with one GPU in each Pod": {
			task: gangOf("1"), index: 2,
			frameworks: []string{"PyTorch", "torchrun", "DeepSpeed", "Accelerate", "Lightning, one GPU in each Pod", "JAX"},
			want: map[string]string{
				"RANK": "2", "NODE_RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "1",
				"MASTER_ADDR": "train-0.train", "PET_MASTER_ADDR": "train-0.train", "PET_NPROC_PER_NODE": "1",
				"JAX_COORDINATOR_ADDRESS": "train-0.train:29500", "JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": "2",
			},
		},
		"a gang with half a GPU in each Pod": {
			task: gangOf("0.5"), index: 1, frameworks: []string{"DeepSpeed", "Accelerate"}, want: map[string]string{"LOCAL_RANK": "0"},
		},
		"a gang with a slice in each Pod": {
			task:       gangOf("1").with(func(t *v1.GPUTask) { t.Spec.GPUProfile = "1g.10gb" }),
			frameworks: []string{"DeepSpeed", "Accelerate"}, want: map[string]string{"LOCAL_RANK": "0"},
		},
		"a gang with eight GPUs in each Pod": {
			task: gangOf("8"), index: 3,
			frameworks: []string{"PyTorch", "torchrun", "Lightning, several GPUs", "JAX"},
			want:       map[string]string{"PET_NPROC_PER_NODE": "8", "PET_NODE_RANK": "3", "PET_NNODES": "4", "JAX_PROCESS_ID": "3"},
		},
		"a gang with a port of its own": {
			task: gangOf("1").with(func(t *v1.GPUTask) {
				t.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "gpu-task", Env: []corev1.EnvVar{{Name: "MASTER_PORT", Value: "23456"}},
				}}}}
			}),
			frameworks: []string{"PyTorch", "torchrun", "JAX"},
			want:       map[string]string{"PET_MASTER_PORT": "23456", "JAX_COORDINATOR_ADDRESS": "train-0.train:23456"},
		},
		"a launcher without GPUs": {
			task: launcherAndWorkers(), index: 0, frameworks: []string{"Ray"},
			want: map[string]string{"GPUTASK_LEADER_ADDR": "mpi-launcher-0.mpi", "LOCAL_RANK": "0"},
		},
		"a worker with eight GPUs": {
			task: launcherAndWorkers(), index: 2, frameworks: []string{"Ray", "torchrun", "Lightning, several GPUs"},
			want: map[string]string{"GPUTASK_LEADER_ADDR": "mpi-launcher-0.mpi", "RANK": "1"},
		},
		"one Pod with eight GPUs": {
			task:       makeTask("train").with(func(t *v1.GPUTask) { t.Spec.GPUAmount = "8" }),
			frameworks: []string{"a Pod by itself"}, want: map[string]string{"PET_NPROC_PER_NODE": "8"},
		},
		"an array of Pods with two GPUs": {
			task: makeTask("train").with(func(t *v1.GPUTask) { t.Spec.GPUAmount, t.Spec.Completions = "2", new(int32(5)) }), index: 4,
			frameworks: []string{"an array"}, want: map[string]string{"PET_NPROC_PER_NODE": "2", "JOB_COMPLETION_INDEX": "4"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := resolved(tc.task.pod(tc.index, 0).Spec.Containers[0].Env)
			for _, name := range tc.frameworks {
				for _, variable := range frameworks[name].requires {
					if got[variable] == "" || strings.Contains(got[variable], "$") {
						t.Errorf("%s: %s is %q", name, variable, got[variable])
					}
				}
				for _, variable := range frameworks[name].forbids {
					if value, set := got[variable]; set {
						t.Errorf("%s: %s is %q, want none", name, variable, value)
					}
				}
			}
			for variable, want := range tc.want {
				if got[variable] != want {
					t.Errorf("%s is %q, want %q", variable, got[variable], want)
				}
			}
		})
	}
}

// resolved returns variables as a program sees them: a reference is to a variable before it.
func resolved(variables []corev1.EnvVar) map[string]string {
	values := map[string]string{}
	for _, variable := range variables {
		value := variable.Value
		for name, before := range values {
			value = strings.ReplaceAll(value, "$("+name+")", before)
		}
		values[variable.Name] = value
	}
	return values
}

// A Pod in its node's network asks the node's DNS server, which knows no Service, unless its policy says otherwise.
func TestPodsInTheNetworkOfTheirNodeFindEachOther(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		task taskBuilder
		spec corev1.PodSpec
		want corev1.DNSPolicy
	}{
		"a gang":                         {makeTask("train").replicas(2), corev1.PodSpec{HostNetwork: true}, corev1.DNSClusterFirstWithHostNet},
		"a gang in the Pods' network":    {makeTask("train").replicas(2), corev1.PodSpec{}, ""},
		"a gang that chooses its policy": {makeTask("train").replicas(2), corev1.PodSpec{HostNetwork: true, DNSPolicy: corev1.DNSDefault}, corev1.DNSDefault},
		"a gang with a Service of its own": {
			makeTask("train").replicas(2), corev1.PodSpec{HostNetwork: true, Subdomain: "mine"}, corev1.DNSClusterFirstWithHostNet,
		},
		"a gang that does not want to meet": {
			makeTask("train").replicas(2).with(func(t *v1.GPUTask) { t.Spec.Rendezvous = v1.RendezvousNone }), corev1.PodSpec{HostNetwork: true}, "",
		},
		"one Pod": {makeTask("train"), corev1.PodSpec{HostNetwork: true}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := tc.task.with(func(t *v1.GPUTask) { t.Spec.Template = &corev1.PodTemplateSpec{Spec: tc.spec} })
			if got := task.pod(0, 0).Spec.DNSPolicy; got != tc.want {
				t.Errorf("DNS policy %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTheAddressOfTheLeaderFollowsItsTemplate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		leader corev1.PodSpec
		want   string
	}{
		"by default":                             {corev1.PodSpec{}, "mpi-launcher-0.mpi"},
		"in a Service of the user's":             {corev1.PodSpec{Subdomain: "mine"}, "mpi-launcher-0.mine"},
		"with a name in a Service of the user's": {corev1.PodSpec{Hostname: "head", Subdomain: "mine"}, "head.mine"},
		"with a name that nobody can look up":    {corev1.PodSpec{Hostname: "head"}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := launcherAndWorkers().with(func(t *v1.GPUTask) { t.Spec.Roles[0].Template = &corev1.PodTemplateSpec{Spec: tc.leader} })
			worker := environment(&task.pod(1, 0).Spec.Containers[0])
			if got := worker["GPUTASK_LEADER_ADDR"]; got != tc.want {
				t.Errorf("GPUTASK_LEADER_ADDR is %q for workers, want %q", got, tc.want)
			}
			if got := environment(&task.pod(0, 0).Spec.Containers[0])["MASTER_ADDR"]; got != tc.want {
				t.Errorf("MASTER_ADDR is %q for the leader, want %q", got, tc.want)
			}
		})
	}
}

// By default, containers have 64 MiB of shared memory, with which PyTorch's data loaders and NCCL fail.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	withGPUs := func(gpus string) taskBuilder {
		return makeTask("train").with(func(t *v1.GPUTask) { t.Spec.GPUAmount = gpus })
	}
	mounting := func(path string) corev1.PodSpec {
		return corev1.PodSpec{
			Volumes:    []corev1.Volume{{Name: "mine"}},
			Containers: []corev1.Container{{Name: "gpu-task", VolumeMounts: []corev1.VolumeMount{{Name: "mine", MountPath: path}}}, {Name: "other"}},
		}
	}
	tests := map[string]struct {
		task taskBuilder
		spec corev1.PodSpec
		want bool
	}{
		"a gang":                             {task: withGPUs("1").replicas(2), want: true},
		"a role without GPUs":                {task: launcherAndWorkers(), want: true},
		"one Pod with several GPUs":          {task: withGPUs("4"), want: true},
		"an array of Pods with several GPUs": {task: withGPUs("4").with(func(t *v1.GPUTask) { t.Spec.Completions = new(int32(2)) }), want: true},
		"one Pod with one GPU":               {task: withGPUs("1")},
		"one Pod with a share of a GPU":      {task: withGPUs("0.5")},
		"a gang with shares, for MPS":        {task: withGPUs("0.5").replicas(2)},
		"other mounts":                       {task: withGPUs("4"), spec: mounting("/dev/shmem"), want: true},
		"shared memory of the template":      {task: withGPUs("4"), spec: mounting("/dev/shm")},
		"the same, in other words":           {task: withGPUs("4"), spec: mounting("/dev/shm/")},
		"the shared memory of the node":      {task: withGPUs("4"), spec: corev1.PodSpec{HostIPC: true}},
		"a volume of the same name":          {task: withGPUs("4"), spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "gputask-shm"}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := tc.task
			if len(task.Spec.Roles) == 0 {
				task = task.with(func(t *v1.GPUTask) { t.Spec.Template = &corev1.PodTemplateSpec{Spec: *tc.spec.DeepCopy()} })
			}
			spec := task.pod(0, 0).Spec
			if !tc.want {
				if len(spec.Volumes) != len(tc.spec.Volumes) {
					t.Errorf("volumes %v, want those of the template", spec.Volumes)
				}
				return
			}
			if len(spec.Volumes) == len(tc.spec.Volumes) {
				t.Fatal("there is no volume for it")
			}
			volume := spec.Volumes[len(spec.Volumes)-1]
			if volume.EmptyDir == nil || volume.EmptyDir.Medium != corev1.StorageMediumMemory {
				t.Fatalf("the volume is %+v", volume)
			}
			for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
				if !slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool {
					return mount.Name == volume.Name && mount.MountPath == "/dev/shm" && !mount.ReadOnly
				}) {
					t.Errorf("container %s mounts %v", container.Name, container.VolumeMounts)
				}
			}
			names := sets.New[string]()
			for _, volume := range spec.Volumes {
				if names.Has(volume.Name) {
					t.Errorf("two volumes are named %s", volume.Name)
				}
				names.Insert(volume.Name)
			}
		})
	}
}
