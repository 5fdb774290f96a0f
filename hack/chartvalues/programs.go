// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"falldio.github.io/gpu-controller/kubectl-gputask/command"
	"falldio.github.io/gpu-controller/pkg/flaglist"
)

// program is a program whose flags are values of the chart.
type program struct {
	// name is also that of its markers in values.yaml and of the file with its flags.
	name string
	// manifest is the file of its Deployment or DaemonSet, with the arguments that the chart has by
	// default.
	manifest string
	// fixed are the flags that are no values, and why.
	fixed map[string]string
	// list returns its flags.
	list func() ([]flaglist.Flag, error)
}

// prints is why a flag is no value.
const prints = "the program prints something and ends"

// programs returns all programs that the chart runs.
func programs() []program {
	const forOneUser = "for a page on the user's own machine"
	return []program{
		{
			name: "gpu-controller", manifest: "artifacts/controller/deployment.yaml",
			fixed: map[string]string{"version": prints},
		},
		{
			name: "gpu-scheduler", manifest: "artifacts/scheduler/deployment.yaml",
			fixed: map[string]string{"config": "the chart mounts it: scheduler.config", "help": prints, "version": prints, "write-config-to": prints},
		},
		{
			name: "nodeagent", manifest: "artifacts/nodeagent/daemonset.yaml",
			fixed: map[string]string{"node-name": "every Pod has its own, in NODE_NAME", "version": prints},
		},
		{
			name: "dradriver", manifest: "artifacts/dradriver/daemonset.yaml",
			fixed: map[string]string{"node-name": "every Pod has its own, in NODE_NAME", "version": prints},
		},
		{
			name: "kubectl-gputask dashboard", manifest: "artifacts/dashboard/deployment.yaml", list: dashboardFlags,
			fixed: map[string]string{"in-cluster": "what the chart installs", "open": forOneUser, "port": forOneUser, "token-file": forOneUser},
		},
	}
}

// flags returns the flags of a program that are values.
func (p *program) flags() ([]flaglist.Flag, error) {
	list := p.list
	if list == nil {
		list = func() ([]flaglist.Flag, error) {
			return flaglist.Read(filepath.Join("hack/chartvalues/flags", p.name+".json"))
		}
	}
	all, err := list()
	if err != nil {
		return nil, err
	}
	fixed := maps.Clone(p.fixed)
	values := slices.DeleteFunc(all, func(flag flaglist.Flag) bool {
		_, isFixed := fixed[flag.Name]
		delete(fixed, flag.Name)
		return isFixed
	})
	for name := range fixed {
		return nil, fmt.Errorf("there is no flag --%s", name)
	}
	return values, nil
}

// dashboardFlags returns the flags of "kubectl gputask dashboard" itself, without those for the
// connection: in a Pod it uses the service account.
func dashboardFlags() ([]flaglist.Flag, error) {
	found, _, err := command.New(&command.Environment{}).Find([]string{"dashboard"})
	if err != nil {
		return nil, err
	}
	connection := pflag.NewFlagSet("", pflag.ContinueOnError)
	genericclioptions.NewConfigFlags(true).AddFlags(connection)
	return slices.DeleteFunc(flaglist.Of(found.LocalFlags()), func(flag flaglist.Flag) bool {
		return flag.Name == "help" || connection.Lookup(flag.Name) != nil
	}), nil
}

// arguments returns the flags in the manifest of a program, each with its values.
func (p *program) arguments() (map[string][]string, error) {
	text, err := os.ReadFile(p.manifest)
	if err != nil {
		return nil, err
	}
	// A Deployment and a DaemonSet have their Pods in the same place.
	workload := &appsv1.DaemonSet{}
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)).Decode(workload); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", p.manifest, err)
	}
	if len(workload.Spec.Template.Spec.Containers) != 1 {
		return nil, fmt.Errorf("%s: has %d containers, want 1", p.manifest, len(workload.Spec.Template.Spec.Containers))
	}
	set := map[string][]string{}
	for _, argument := range workload.Spec.Template.Spec.Containers[0].Args {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		if !strings.HasPrefix(argument, "--") {
			continue // the command
		}
		if !hasValue {
			value = "true"
		}
		set[name] = append(set[name], value)
	}
	return set, nil
}
