// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/util/exec"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
)

// joined returns nothing, the only error, or all of them together. Errors lists them again.
func joined(failures []error) error {
	if len(failures) == 1 {
		return failures[0]
	}
	return utilerrors.NewAggregate(failures)
}

// Errors returns the errors that the error of a command consists of: a command about several
// tasks goes on after one of them has failed. Each says in the end what the user can do.
func Errors(err error) []error {
	list := []error{err}
	var several utilerrors.Aggregate
	if errors.As(err, &several) {
		list = utilerrors.Flatten(several).Errors()
	}
	for i := range list {
		list[i] = cluster.Explained(list[i])
	}
	return list
}

// Report writes the errors of a command for a terminal, one in a line.
func Report(to io.Writer, err error) {
	for _, failure := range Errors(err) {
		fmt.Fprintln(show.Safe(to), "error:", failure)
	}
}

// timedOut is the exit code after a time limit, that of timeout(1).
const timedOut = 124

// ExitCode returns the exit code that an error of a command calls for: that of the command
// run by exec, 124 if nothing but a time limit is to blame, otherwise 1.
func ExitCode(err error) int {
	if list := Errors(err); len(list) == 1 && errors.Is(list[0], errTimeout) {
		return timedOut
	}
	var remote exec.ExitError
	if errors.As(err, &remote) && remote.Exited() && remote.ExitStatus() > 0 {
		return remote.ExitStatus()
	}
	return 1
}
