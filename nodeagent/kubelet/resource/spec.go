// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resource reads which extended resources the agent serves.
package resource

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	// defaultCount is the number of devices of a simulated resource without a count.
	defaultCount = 10
	maxCount     = 10000
)

// Kind is what the devices of a resource are, as the source of a spec names it.
type Kind string

const (
	// Simulated devices only have a name.
	Simulated Kind = "simulated"
	// GPUs are those of the node.
	GPUs Kind = "gpus"
	// Shares are the node's GPUs in shares of one percent.
	Shares Kind = "shares"
	// None means that the resource is not served.
	None Kind = "none"
)

// OfGPUs reports whether the devices are GPUs, whole or in shares.
func (k Kind) OfGPUs() bool { return k == GPUs || k == Shares }

// Spec is one resource that the agent serves.
type Spec struct {
	// Name is the resource's name, for example "falldio.com/gpu".
	Name string
	// Kind is the kind of its devices.
	Kind Kind
	// Count is the number of simulated devices.
	Count int
	// Environment is the environment variable with the IDs of a container's devices; Parse
	// leaves it empty for the default.
	Environment string
}

// ShortName returns the name without its domain: rdma for falldio.com/rdma.
func (s *Spec) ShortName() string { return s.Name[strings.LastIndex(s.Name, "/")+1:] }

// ParseAll parses specs and sets their variables; gpuVariable is the default for GPUs.
// falldio.com/gpu implies falldio.com/gpu-percent, unless there is a spec for it; specs that
// only exclude resources leave falldio.com/gpu served. It rejects a resource that is served
// twice, and GPUs, or shares of them, under two names: the kubelet would allocate each of
// them twice.
func ParseAll(texts []string, gpuVariable string) ([]Spec, error) {
	specs, err := parseEach(texts)
	specs = withShares(withGPUs(specs))
	specs = slices.DeleteFunc(specs, func(spec Spec) bool { return spec.Kind == None })
	return specs, errors.Join(err, setVariables(specs, gpuVariable))
}

// withGPUs adds the GPUs if all specs only exclude other resources.
func withGPUs(specs []Spec) []Spec {
	prevents := func(spec Spec) bool { return spec.Kind != None || spec.Name == string(v1.ResourceGPU) }
	if len(specs) == 0 || slices.ContainsFunc(specs, prevents) {
		return specs
	}
	return append(specs, Spec{Name: string(v1.ResourceGPU), Kind: GPUs})
}

// withShares adds shares of the GPUs if GPUs are served and no spec is about shares.
func withShares(specs []Spec) []Spec {
	isGPUs := func(spec Spec) bool { return spec.Kind == GPUs && spec.Name == string(v1.ResourceGPU) }
	isShares := func(spec Spec) bool { return spec.Kind == Shares || spec.Name == string(v1.ResourceGPUPercent) }
	if !slices.ContainsFunc(specs, isGPUs) || slices.ContainsFunc(specs, isShares) {
		return specs
	}
	return append(specs, Spec{Name: string(v1.ResourceGPUPercent), Kind: Shares})
}

func parseEach(texts []string) ([]Spec, error) {
	var specs []Spec
	var problems []error
	names, ofGPUs := map[string]bool{}, map[Kind]string{}
	for _, text := range texts {
		spec, err := Parse(text)
		switch {
		case err != nil:
			problems = append(problems, err)
			continue
		case names[spec.Name]:
			problems = append(problems, fmt.Errorf("%q: %s is served already", text, spec.Name))
		case spec.Kind.OfGPUs() && ofGPUs[spec.Kind] != "":
			problems = append(problems, fmt.Errorf("%q: the %s are served as %s already", text, spec.Kind, ofGPUs[spec.Kind]))
		}
		names[spec.Name] = true
		if spec.Kind.OfGPUs() {
			ofGPUs[spec.Kind] = spec.Name
		}
		specs = append(specs, spec)
	}
	return specs, errors.Join(problems...)
}

// Parse parses NAME=SOURCE[,env=VARIABLE], with the source gpus, shares, simulated:COUNT or
// none. Without a source, falldio.com/gpu has the GPUs, falldio.com/gpu-percent has shares
// of them, and everything else is simulated.
func Parse(text string) (Spec, error) {
	name, rest, given := strings.Cut(text, "=")
	spec := Spec{Name: name}
	if problems := nameProblems(name); len(problems) > 0 {
		return Spec{}, fmt.Errorf("%q: resource %q: %s", text, name, strings.Join(problems, "; "))
	}
	if !given {
		rest = string(defaultKind(name))
	}
	source, options, more := strings.Cut(rest, ",")
	if err := spec.setSource(source); err != nil {
		return Spec{}, fmt.Errorf("%q: %w", text, err)
	}
	if more {
		variable, found := strings.CutPrefix(options, "env=")
		if !found || !IsVariable(variable) {
			return Spec{}, fmt.Errorf("%q: %q: expected env= and the name of an environment variable", text, options)
		}
		spec.Environment = variable
	}
	return spec, nil
}

// nameProblems returns why a name is not a valid name of an extended resource, as the
// kubelet sees it.
func nameProblems(name string) []string {
	domain, _, found := strings.Cut(name, "/")
	problems := validation.IsQualifiedName(name)
	switch {
	case len(problems) > 0 || !found:
		return append(problems, "must be a domain and a name, for example falldio.com/gpu")
	case strings.Contains(name, corev1.ResourceDefaultNamespacePrefix):
		return []string{"must not be in the domain kubernetes.io"}
	case strings.HasPrefix(domain, corev1.DefaultResourceRequestsPrefix):
		return []string{fmt.Sprintf("must not begin with %q", corev1.DefaultResourceRequestsPrefix)}
	}
	return validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix + name) // the name in resource quotas
}

func defaultKind(name string) Kind {
	switch name {
	case string(v1.ResourceGPU):
		return GPUs
	case string(v1.ResourceGPUPercent):
		return Shares
	default:
		return Simulated
	}
}

// String describes the devices in messages.
func (k Kind) String() string {
	switch k {
	case GPUs:
		return "GPUs"
	case Shares:
		return "shares of the GPUs"
	case None:
		return "no devices"
	default:
		return "simulated devices"
	}
}

func (s *Spec) setSource(source string) error {
	kind, count, counted := strings.Cut(source, ":")
	s.Kind = Kind(kind)
	switch {
	case s.Kind == Simulated && counted:
		number, err := strconv.Atoi(count)
		if err != nil || number < 1 || number > maxCount {
			return fmt.Errorf("source %q: the count must be a number from 1 to %d", source, maxCount)
		}
		s.Count = number
	case s.Kind == Simulated:
		s.Count = defaultCount
	case counted || s.Kind != GPUs && s.Kind != Shares && s.Kind != None:
		return fmt.Errorf("source %q: must be gpus, shares, simulated:COUNT or none", source)
	}
	return nil
}
