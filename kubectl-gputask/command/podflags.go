// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// podFlags are the flags that describe the Pods of a task.
type podFlags struct {
	image          string
	workdir        string
	env            []string
	envFrom        []string
	pvcs           []string
	secrets        []string
	shm            string
	serviceAccount string
	labels         []string
	annotations    []string
}

func (f *podFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.image, "image", "", "image of the container (default: the controller's --default-image)")
	flags.StringVar(&f.workdir, "workdir", "", "directory that the command runs in (default that of the image)")
	flags.StringArrayVar(&f.env, "env", nil, "environment variable `NAME=VALUE` of the container; may be repeated")
	flags.StringArrayVar(&f.envFrom, "env-from", nil, "environment variables from `configmap/NAME` or secret/NAME; may be repeated")
	flags.StringArrayVar(&f.pvcs, "pvc", nil, "PersistentVolumeClaim to mount, `NAME:/PATH`, or NAME:/PATH:ro to only read it; may be repeated")
	flags.StringArrayVar(&f.secrets, "secret", nil, "Secret to mount as files, `NAME:/PATH`; may be repeated")
	flags.StringVar(&f.shm, "shm", "", "shared memory in /dev/shm, for example 16Gi: PyTorch's data loaders and NCCL need more than the 64 MiB of a container. What is used of it counts towards --memory")
	flags.StringVar(&f.serviceAccount, "service-account", "", "ServiceAccount of the Pods (default that of the namespace)")
	flags.StringArrayVar(&f.labels, "label", nil, "label `KEY=VALUE` of the task and its Pods; may be repeated")
	flags.StringArrayVar(&f.annotations, "annotation", nil, "annotation `KEY=VALUE` of the task's Pods; may be repeated")
}

func (f *podFlags) complete(s *session, command *cobra.Command) {
	complete(command, "pvc", s.beginnings(claims))
	complete(command, "secret", s.beginnings(secrets))
	complete(command, "env-from", s.values(environments))
	complete(command, "service-account", s.values(serviceAccounts))
	for _, flag := range []string{"image", "workdir", "env", "shm", "label", "annotation"} {
		complete(command, flag, noCompletion)
	}
}

// template returns nil if none of the flags was given, so that the controller's default Pod is used. The container has
// the given name.
func (f *podFlags) template(container string, command []string) (*corev1.PodTemplateSpec, error) {
	labels, err := keysAndValues("label", f.labels)
	if err != nil {
		return nil, err
	}
	annotations, err := keysAndValues("annotation", f.annotations)
	if err != nil {
		return nil, err
	}
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}}
	template.Spec.ServiceAccountName = f.serviceAccount
	worker := corev1.Container{Image: f.image, WorkingDir: f.workdir, Command: command}
	if err := f.setEnvironment(&worker); err != nil {
		return nil, err
	}
	if err := f.mountAll(&template.Spec, &worker); err != nil {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(worker, corev1.Container{}) {
		worker.Name = container
		template.Spec.Containers = []corev1.Container{worker}
	}
	if equality.Semantic.DeepEqual(*template, corev1.PodTemplateSpec{}) {
		return nil, nil //nolint:nilnil // having none is not an error
	}
	return template, nil
}

func (f *podFlags) setEnvironment(container *corev1.Container) error {
	for _, text := range f.env {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return fmt.Errorf("--env=%s: must be NAME=VALUE", text)
		}
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
	}
	for _, text := range f.envFrom {
		kind, name, _ := strings.Cut(text, "/")
		object := corev1.LocalObjectReference{Name: name}
		switch {
		case kind == "configmap" && name != "":
			container.EnvFrom = append(container.EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: object}})
		case kind == "secret" && name != "":
			container.EnvFrom = append(container.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: object}})
		default:
			return fmt.Errorf("--env-from=%s: must be configmap/NAME or secret/NAME", text)
		}
	}
	return nil
}

// mountAll mounts what the flags name.
func (f *podFlags) mountAll(pod *corev1.PodSpec, container *corev1.Container) error {
	for _, text := range f.pvcs {
		name, path, readOnly, valid := parseMount(text)
		if !valid {
			return fmt.Errorf("--pvc=%s: must be NAME:/PATH or NAME:/PATH:ro, for example dataset:/data", text)
		}
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
		mount(pod, container, "pvc-"+name, source, corev1.VolumeMount{MountPath: path, ReadOnly: readOnly})
	}
	for _, text := range f.secrets {
		name, path, readOnly, valid := parseMount(text)
		if !valid || readOnly { // they always are
			return fmt.Errorf("--secret=%s: must be NAME:/PATH, for example wandb:/secrets/wandb", text)
		}
		source := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
		mount(pod, container, "secret-"+name, source, corev1.VolumeMount{MountPath: path, ReadOnly: true})
	}
	if f.shm == "" {
		return nil
	}
	size, err := resource.ParseQuantity(f.shm)
	if err != nil || size.Sign() <= 0 {
		return fmt.Errorf("--shm=%s: must be an amount of memory, for example 16Gi", f.shm)
	}
	source := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}}
	mount(pod, container, "shm", source, corev1.VolumeMount{MountPath: "/dev/shm"})
	return nil
}

// parseMount reads NAME:/PATH or NAME:/PATH:ro.
func parseMount(text string) (name, path string, readOnly, valid bool) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 && parts[2] == "ro" {
		parts, readOnly = parts[:2], true
	}
	if len(parts) != 2 || parts[0] == "" || !strings.HasPrefix(parts[1], "/") {
		return "", "", false, false
	}
	return parts[0], parts[1], readOnly, true
}

// mount adds a volume, unless the Pod has it already, and mounts it.
func mount(pod *corev1.PodSpec, container *corev1.Container, volume string, source corev1.VolumeSource, how corev1.VolumeMount) {
	if known := slices.IndexFunc(pod.Volumes, func(known corev1.Volume) bool { return equality.Semantic.DeepEqual(known.VolumeSource, source) }); known >= 0 {
		how.Name = pod.Volumes[known].Name
	} else {
		how.Name = volumeName(pod, volume)
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: how.Name, VolumeSource: source})
	}
	container.VolumeMounts = append(container.VolumeMounts, how)
}

// volumeName returns a name for a volume that no other volume of the Pod has. Names of volumes are DNS labels, names of
// what they are made of may be longer and have dots.
func volumeName(pod *corev1.PodSpec, wanted string) string {
	wanted = strings.TrimRight(truncated(strings.ReplaceAll(wanted, ".", "-"), validation.DNS1123LabelMaxLength-len("-99")), "-")
	name := wanted
	for i := 2; slices.ContainsFunc(pod.Volumes, func(known corev1.Volume) bool { return known.Name == name }); i++ {
		name = fmt.Sprintf("%s-%d", wanted, i)
	}
	return name
}

func truncated(text string, length int) string { return text[:min(len(text), length)] }

func keysAndValues(flag string, texts []string) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil //nolint:nilnil // having none is not an error
	}
	values := make(map[string]string, len(texts))
	for _, text := range texts {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("--%s=%s: must be KEY=VALUE", flag, text)
		}
		values[key] = value
	}
	return values, nil
}

// containerOf returns the name of the container of a task that gets the GPUs: the only one, or the one named by us.
func containerOf(task *v1.GPUTask) string {
	if template := task.Spec.Template; template != nil && len(template.Spec.Containers) == 1 {
		return template.Spec.Containers[0].Name
	}
	return v1.ContainerName
}
