// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"testing"

	"falldio.github.io/gpu-controller/pkg/flaglist"
)

var update = flag.Bool("update", false, "write the list of flags from which the values of the Helm chart are generated")

func TestTheListOfFlagsIsThatOfTheProgram(t *testing.T) {
	t.Parallel()
	if err := flaglist.Check("../hack/chartvalues/flags/gpu-scheduler.json", newCommand().Flags(), *update); err != nil {
		t.Error(err)
	}
}
