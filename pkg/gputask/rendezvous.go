// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// masterPort is the port that PyTorch's launchers use by default:
// https://pytorch.org/docs/stable/elastic/run.html
const masterPort = 29500

// variableIndex is the environment variable with a Pod's index, as batch/v1 Job names it.
const variableIndex = "JOB_COMPLETION_INDEX"

// variableProcesses is the environment variable with how many processes torchrun starts in a Pod.
const variableProcesses = "PET_NPROC_PER_NODE"

// hasRendezvous reports whether the Pods of a task get ranks and names.
func hasRendezvous(task *v1.GPUTask) bool {
	return IsGang(task) && task.Spec.Rendezvous != v1.RendezvousNone
}

// NeedsService reports whether a task has a Service of its own. A template that names its hosts
// itself relies on a Service of the user's.
func NeedsService(task *v1.GPUTask) bool {
	if !hasRendezvous(task) {
		return false
	}
	return slices.ContainsFunc(Roles(task), func(role Role) bool {
		return role.Template == nil || role.Template.Spec.Hostname == "" && role.Template.Spec.Subdomain == ""
	})
}

// ServiceName returns the name of a task's Service: the task's name, if a Service can have it.
// Dots, and a digit at the beginning, are not allowed there.
func ServiceName(task *v1.GPUTask) string {
	if len(validation.IsDNS1035Label(task.Name)) == 0 {
		return task.Name
	}
	maxBase := 40 // what is left of a label for "t-", the hash and the Pod's index is enough
	if len(task.Spec.Roles) > 0 {
		maxBase -= maxRoleName
	}
	base := strings.ReplaceAll(task.Name, ".", "-")
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(task.Name)) // never fails
	return fmt.Sprintf("t-%s-%08x", strings.TrimRight(base[:min(len(base), maxBase)], "-"), hash.Sum32())
}

// NewService returns the headless Service that gives the Pods of a gang names. It publishes
// Pods that are not ready, since they become ready only when they have found each other.
func NewService(task *v1.GPUTask) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:            ServiceName(task),
			Namespace:       task.Namespace,
			Labels:          map[string]string{v1.LabelApp: v1.LabelAppValue, v1.LabelTask: task.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(task, v1.TaskKind())},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 selectorOf(task),
		},
	}
}

// selectorOf returns the labels by which the Pods of a task are selected.
func selectorOf(task *v1.GPUTask) map[string]string {
	return map[string]string{v1.LabelTask: task.Name}
}

// maxRoleName is the maximum length of a role's name, with a '-', in the CRD's schema.
const maxRoleName = 21

// hostName returns the name of a host within the Service: that of the member with the given index
// in its role.
func hostName(task *v1.GPUTask, role string, index int) string {
	if role == "" {
		return ServiceName(task) + "-" + strconv.Itoa(index)
	}
	return ServiceName(task) + "-" + role + "-" + strconv.Itoa(index)
}

// applyRendezvous gives the Pod of a member a name in DNS, and its containers the variables from
// which frameworks learn about the gang, or about their place in the array. index is that in the
// role. What the template sets stays.
func applyRendezvous(spec *corev1.PodSpec, task *v1.GPUTask, role *Role, index int) {
	if !hasRendezvous(task) {
		setVariables(spec, lonelyVariables(task, role, index))
		return
	}
	if spec.HostNetwork && spec.DNSPolicy == "" { // the default would be the node's DNS server, which knows no Services
		spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
	ownHosts := spec.Hostname != "" // the same for all members: none of them can be found by it
	if !ownHosts {
		spec.Hostname = hostName(task, role.Name, index)
		if spec.Subdomain == "" {
			spec.Subdomain = ServiceName(task)
		}
	}
	variables := rankVariables(task, role, index)
	if role.Name != "" {
		variables = append(variables, roleVariables(task, role)...)
	}
	if master := firstAddress(task, role); master != "" {
		variables = append(variables, masterVariables(task, role, index, master)...)
	}
	setVariables(spec, variables)
}

// firstAddress returns the name in DNS of the first Pod of a role; empty if its template names the hosts so that it has
// none, or the same as others.
func firstAddress(task *v1.GPUTask, role *Role) string {
	spec := &corev1.PodSpec{}
	if role.Template != nil {
		spec = &role.Template.Spec
	}
	_, most := sizes(task, role)
	switch {
	case spec.Hostname == "":
		return hostName(task, role.Name, 0) + "." + cmp.Or(spec.Subdomain, ServiceName(task))
	case spec.Subdomain == "" || most > 1:
		return ""
	default:
		return spec.Hostname + "." + spec.Subdomain
	}
}

// setVariables adds the variables that the containers of a Pod do not set.
func setVariables(spec *corev1.PodSpec, variables []corev1.EnvVar) {
	for i := range spec.InitContainers {
		addVariables(&spec.InitContainers[i], variables)
	}
	for i := range spec.Containers {
		addVariables(&spec.Containers[i], variables)
	}
}

// lonelyVariables are those of Pods that need not find each other: their place in an array, and how many processes
// torchrun starts.
func lonelyVariables(task *v1.GPUTask, role *Role, index int) (variables []corev1.EnvVar) {
	if IsArray(task) {
		variables = append(variables, corev1.EnvVar{Name: variableIndex, Value: strconv.Itoa(index)})
	}
	if processes := processesPerPod(role); processes > 1 && task.Spec.Rendezvous != v1.RendezvousNone {
		variables = append(variables, corev1.EnvVar{Name: variableProcesses, Value: strconv.Itoa(processes)})
	}
	return variables
}

// rankVariables tell a program that runs once in each Pod which of them it is. torchrun, which
// starts one process for each GPU, reads those with PET_:
// https://pytorch.org/docs/stable/elastic/run.html
func rankVariables(task *v1.GPUTask, role *Role, index int) []corev1.EnvVar {
	rank, size, processes := strconv.Itoa(index), strconv.Itoa(role.Count()), processesPerPod(role)
	variables := []corev1.EnvVar{
		{Name: "RANK", Value: rank},
		{Name: "NODE_RANK", Value: rank},
		{Name: variableIndex, Value: rank},
		{Name: "WORLD_SIZE", Value: size},
		{Name: "LOCAL_WORLD_SIZE", Value: "1"},
		{Name: "PET_NODE_RANK", Value: rank},
		{Name: "PET_NNODES", Value: nodeCounts(task, role)},
		{Name: variableProcesses, Value: strconv.Itoa(processes)},
	}
	if processes == 1 { // else programs that start a process for each GPU would believe that somebody has done so
		variables = append(variables, corev1.EnvVar{Name: "LOCAL_RANK", Value: "0"})
	}
	return variables
}

// nodeCounts returns how many Pods torchrun waits for: "4", or "2:4" for at least 2 and up to 4.
func nodeCounts(task *v1.GPUTask, role *Role) string {
	least, most := sizes(task, role)
	if least == most {
		return strconv.Itoa(most)
	}
	return fmt.Sprintf("%d:%d", least, most)
}

// sizes returns how many Pods of a role run together, at least and at most.
func sizes(task *v1.GPUTask, role *Role) (least, most int) {
	switch {
	case role.Name != "":
		return role.Count(), role.Count()
	case task.Spec.MaxReplicas != nil:
		return MinAvailable(task), int(*task.Spec.MaxReplicas)
	default:
		return MinAvailable(task), role.Count()
	}
}

// roleVariables tell a program its role and where the first Pod of the first role is.
func roleVariables(task *v1.GPUTask, role *Role) []corev1.EnvVar {
	variables := []corev1.EnvVar{{Name: "GPUTASK_ROLE", Value: role.Name}}
	if leader := firstAddress(task, &Roles(task)[0]); leader != "" {
		variables = append(variables, corev1.EnvVar{Name: "GPUTASK_LEADER_ADDR", Value: leader})
	}
	return variables
}

// masterVariables tell where rank 0 is. Those of torchrun and JAX refer to the others, which the
// template may have set.
func masterVariables(task *v1.GPUTask, role *Role, index int, address string) []corev1.EnvVar {
	variables := []corev1.EnvVar{
		{Name: "MASTER_ADDR", Value: address},
		{Name: "MASTER_PORT", Value: strconv.Itoa(masterPort)},
		{Name: "PET_MASTER_ADDR", Value: "$(MASTER_ADDR)"},
		{Name: "PET_MASTER_PORT", Value: "$(MASTER_PORT)"},
		{Name: "JAX_COORDINATOR_ADDRESS", Value: "$(MASTER_ADDR):$(MASTER_PORT)"},
		{Name: "JAX_NUM_PROCESSES", Value: strconv.Itoa(role.Count())},
		{Name: "JAX_PROCESS_ID", Value: strconv.Itoa(index)},
	}
	if isElastic(task) { // torchrun can do with fewer only if it finds the others itself
		variables = append(variables,
			corev1.EnvVar{Name: "PET_RDZV_BACKEND", Value: "c10d"},
			corev1.EnvVar{Name: "PET_RDZV_ENDPOINT", Value: "$(MASTER_ADDR):$(MASTER_PORT)"},
			corev1.EnvVar{Name: "PET_RDZV_ID", Value: task.Name},
		)
	}
	return variables
}

// isElastic reports whether the number of Pods that run together may change.
func isElastic(task *v1.GPUTask) bool {
	return task.Spec.MaxReplicas != nil || MinAvailable(task) < Replicas(task)
}

// addVariables adds the variables that a container does not set.
func addVariables(container *corev1.Container, variables []corev1.EnvVar) {
	own := container.Env
	container.Env = slices.Grow(own, len(variables))
	for i := range variables {
		if !slices.ContainsFunc(own, func(set corev1.EnvVar) bool { return set.Name == variables[i].Name }) {
			container.Env = append(container.Env, variables[i])
		}
	}
}
