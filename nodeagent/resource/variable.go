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

// IsVariable is true for the name of an environment variable.
func IsVariable(name string) bool { return variables.MatchString(name) }

// setVariables gives each spec without a variable its default: GPUs the one that
// is given, others one made of the resource's name, FALLDIO_VISIBLE_RDMA of
// falldio.com/rdma. It refuses a variable that two have: a container with both
// would see only one of them.
func setVariables(specs []Spec, ofGPUs string) error {
	var problems []error
	owner := map[string]string{}
	for i := range specs {
		spec := &specs[i]
		switch {
		case spec.Environment != "":
		case spec.GPUs:
			spec.Environment = ofGPUs
		default:
			spec.Environment = "FALLDIO_VISIBLE_" + notInVariables.ReplaceAllString(strings.ToUpper(spec.ShortName()), "_")
		}
		if other := owner[spec.Environment]; other != "" {
			problems = append(problems, fmt.Errorf("%s: the variable %s is that of %s already; add ,env=VARIABLE", spec.Name, spec.Environment, other))
		}
		owner[spec.Environment] = spec.Name
	}
	return errors.Join(problems...)
}
