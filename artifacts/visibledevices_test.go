// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// These tests have NVIDIA's container runtime itself, of the version in go.mod, decide which GPUs
// containers get, by the settings that docs/security.md is about.

const nvidiaRuntime = "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-container-runtime"

// The settings of NVIDIA's runtime.
const (
	acceptVariable = "accept-nvidia-visible-devices-envvar-when-unprivileged"
	acceptMounts   = "accept-nvidia-visible-devices-as-volume-mounts"
)

// describesAll describes all GPUs, as NVIDIA's toolkit does, by a variable that shows which container
// has got them.
const describesAll = `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all", "containerEdits": {"env": ["HAS=all"]}}]}`

// containerRuntime is NVIDIA's runtime. The runtime that it calls does nothing.
type containerRuntime struct{ program, dir string }

func newContainerRuntime(t *testing.T) *containerRuntime {
	t.Helper()
	r := &containerRuntime{dir: t.TempDir()}
	r.program = filepath.Join(r.dir, "nvidia-container-runtime")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", r.program, nvidiaRuntime)
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", nvidiaRuntime, err, output)
	}
	write(t, filepath.Join(r.dir, "cdi.json"), describesAll, 0o600)
	write(t, filepath.Join(r.dir, "runc"), "#!/bin/sh\n", 0o700)
	return r
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// gives has the runtime create a container, and reports whether it gives it all GPUs.
func (r *containerRuntime) gives(t *testing.T, container *specs.Spec, settings map[string]bool) bool {
	t.Helper()
	var text strings.Builder
	for name, value := range settings {
		fmt.Fprintf(&text, "%s = %v\n", name, value)
	}
	fmt.Fprintf(&text, "[nvidia-container-runtime]\nmode = \"cdi\"\nruntimes = [%q]\n[nvidia-container-runtime.modes.cdi]\nspec-dirs = [%q]\n",
		filepath.Join(r.dir, "runc"), r.dir)
	bundle := t.TempDir()
	write(t, filepath.Join(bundle, "config.toml"), text.String(), 0o600)
	before, err := json.Marshal(container)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bundle, "config.json")
	write(t, path, string(before), 0o600)
	command := exec.CommandContext(t.Context(), r.program, "create", "--bundle", bundle, "container")
	command.Env = append(os.Environ(), "NVIDIA_CTK_CONFIG_FILE_PATH="+filepath.Join(bundle, "config.toml"))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	after := &specs.Spec{}
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, after)
	}
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(after.Process.Env, "HAS=all")
}

// containerWith returns an unprivileged container as the kubelet and containerd would describe it.
func containerWith(env []string, mounts ...specs.Mount) *specs.Spec {
	return &specs.Spec{
		Version: specs.Version, Root: &specs.Root{Path: "rootfs"}, Linux: &specs.Linux{},
		Process: &specs.Process{Cwd: "/", Args: []string{"sh"}, Env: env, Capabilities: &specs.LinuxCapabilities{Bounding: []string{"CAP_CHOWN"}}},
		Mounts:  mounts,
	}
}

// daemonSets returns the containers of the agents and of the DRA driver, as the manifests have them, with
// some components.
func daemonSets(t *testing.T, components ...string) map[string]*specs.Spec {
	t.Helper()
	dir := t.TempDir()
	there := func(folder string) string {
		absolute, err := filepath.Abs(folder)
		if err != nil {
			t.Fatal(err)
		}
		relative, err := filepath.Rel(dir, absolute)
		if err != nil {
			t.Fatal(err)
		}
		return relative
	}
	var parts []string
	for _, component := range components {
		parts = append(parts, there(component))
	}
	text := fmt.Sprintf("resources: [%s, %s]\ncomponents: [%s]\n", there("nodeagent"), there("dradriver"), strings.Join(parts, ", "))
	write(t, filepath.Join(dir, "kustomization.yaml"), text, 0o600)
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	containers := map[string]*specs.Spec{}
	for _, resource := range resources.Resources() {
		if resource.GetKind() != "DaemonSet" {
			continue
		}
		set := &appsv1.DaemonSet{}
		if err := yaml.Unmarshal([]byte(resource.MustYaml()), set); err != nil {
			t.Fatal(err)
		}
		containers[set.Name] = containerOf(&set.Spec.Template.Spec)
	}
	return containers
}

// containerOf returns the first container of a Pod.
func containerOf(pod *corev1.PodSpec) *specs.Spec {
	container := &pod.Containers[0]
	var env []string
	for _, variable := range container.Env {
		env = append(env, variable.Name+"="+variable.Value)
	}
	var mounts []specs.Mount
	for _, mount := range container.VolumeMounts {
		for i := range pod.Volumes {
			if volume := &pod.Volumes[i]; volume.Name == mount.Name && volume.HostPath != nil {
				mounts = append(mounts, specs.Mount{Source: volume.HostPath.Path, Destination: mount.MountPath, Type: "bind"})
			}
		}
	}
	return containerWith(env, mounts...)
}

func TestWhoGetsAllGPUsOfNVIDIAsRuntime(t *testing.T) {
	t.Parallel()
	r := newContainerRuntime(t)
	open := map[string]bool{}                                            // the defaults
	closed := map[string]bool{acceptVariable: false, acceptMounts: true} // what docs/security.md advises
	check := func(who string, container *specs.Spec, openGives, closedGives bool) {
		t.Helper()
		if got := r.gives(t, container, open); got != openGives {
			t.Errorf("by default, %s gets all GPUs: %v", who, got)
		}
		if got := r.gives(t, container, closed); got != closedGives {
			t.Errorf("with %s = false, %s gets all GPUs: %v", acceptVariable, who, got)
		}
	}
	// What tenants may do: this is the hole, and that it is closed.
	check("a Pod that sets the variable", containerWith([]string{"NVIDIA_VISIBLE_DEVICES=all"}), true, false)
	check("an old CUDA image", containerWith([]string{"CUDA_VERSION=8.0.61"}), true, false)
	check("a Pod with an emptyDir in place of the mount", containerWith([]string{"NVIDIA_VISIBLE_DEVICES=void"},
		specs.Mount{Source: "/var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/x", Destination: "/var/run/nvidia-container-devices/all"}), false, false)
	check("a container that has got its GPU by CDI", containerWith([]string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=void"}), false, false)
	for name, container := range daemonSets(t) {
		check(name, container, true, false)
	}
	mounted := daemonSets(t, "nodeagent/volume-mounts")
	if len(mounted) != 3 {
		t.Errorf("%d DaemonSets, want nodeagent, nodeagent-observe and dradriver", len(mounted))
	}
	for name, container := range mounted {
		check(name+" with the mount", container, true, true)
	}
}
