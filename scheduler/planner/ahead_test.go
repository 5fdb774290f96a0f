// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"

	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

func TestTheCauseOfAPostponementNamesOnlyJobsOfTheNamespace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for want, cause := range map[string]backfill.Cause{
		"train runs longer than estimated":                             {Kind: backfill.Overrun, Job: "default/train"},
		"it is no longer known when work of another namespace ends":    {Kind: backfill.EndUnknown, Job: "secret/train"},
		"work of another namespace goes first and needs the same GPUs": {Kind: backfill.GoesFirst, Job: "secret/train"},
		"others have taken GPUs that it was to get":                    {Kind: backfill.Taken},
	} {
		if got := f.causeFor(&cause, "default"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
