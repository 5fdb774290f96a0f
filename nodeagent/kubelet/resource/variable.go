// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var (
	notInVariables = regexp.MustCompile(`[^A-Z0-9_]+`)
	variables      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// IsVariable reports whether a string is a valid name of an environment variable.
func IsVariable(name string) bool { return variables.MatchString(name) }

// setVariables sets the default variable of each spec without one: ofGPUs for GPUs, that of
// the GPUs for shares of them, and one made of the resource's name for others,
// FALLDIO_VISIBLE_RDMA for falldio.com/rdma. It rejects a variable that two resources use:
// a container with both would see only one of them. Only GPUs and shares may have the
// same, since a container has either.
func setVariables(specs []Spec, ofGPUs string) error {
	var problems []error
	owner := map[string]*Spec{}
	for i := range specs {
		if specs[i].Kind == GPUs && specs[i].Environment != "" {
			ofGPUs = specs[i].Environment
		}
	}
	for i := range specs {
		spec := &specs[i]
		switch {
		case spec.Environment != "":
		case spec.Kind.OfGPUs():
			spec.Environment = ofGPUs
		default:
			spec.Environment = "FALLDIO_VISIBLE_" + notInVariables.ReplaceAllString(strings.ToUpper(spec.ShortName()), "_")
		}
		other := owner[spec.Environment]
		if other != nil && (!other.Kind.OfGPUs() || !spec.Kind.OfGPUs()) {
			problems = append(problems, fmt.Errorf("%s: the variable %s is that of %s already; add ,env=VARIABLE", spec.Name, spec.Environment, other.Name))
		}
		owner[spec.Environment] = spec
	}
	return errors.Join(problems...)
}
