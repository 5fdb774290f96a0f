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

// IsVariable reports whether a text is the name of an environment variable.
func IsVariable(name string) bool { return variables.MatchString(name) }

// setVariables gives each spec without a variable its default: GPUs the one that
// is given, shares of them that of the GPUs, others one made of the resource's
// name, FALLDIO_VISIBLE_RDMA of falldio.com/rdma. It refuses a variable that two
// have: a container with both would see only one of them. A container has GPUs or
// a share of one, so to it these are the same.
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
		case spec.Kind.ofGPUs():
			spec.Environment = ofGPUs
		default:
			spec.Environment = "FALLDIO_VISIBLE_" + notInVariables.ReplaceAllString(strings.ToUpper(spec.ShortName()), "_")
		}
		other := owner[spec.Environment]
		if other != nil && (!other.Kind.ofGPUs() || !spec.Kind.ofGPUs()) {
			problems = append(problems, fmt.Errorf("%s: the variable %s is that of %s already; add ,env=VARIABLE", spec.Name, spec.Environment, other.Name))
		}
		owner[spec.Environment] = spec
	}
	return errors.Join(problems...)
}
