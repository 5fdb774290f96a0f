// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"strings"
	"testing"
)

func TestRunWarnsOfWhatThereIsNot(t *testing.T) {
	t.Parallel()
	const warning = "Warning: spec.gpu: no node has h100-80gb (did you mean h100?); models here: a100, h100\n"
	for args, want := range map[string]string{
		"--gpu h100":                                    "",
		"--gpu h100-80gb":                               warning,
		"--gpu h100-80gb --dry-run=server":              warning,
		"--gpu h100-80gb --dry-run=client --replicas=2": "",
		"":                "",
		"--priority high": "",
		"--priority hihg": "Warning: spec.priority: there is no PriorityClass \"hihg\"; there are high and low (did you mean high?)\n",
	} {
		f := fragmented(t)
		if err := f.run(append([]string{"run", "new"}, strings.Fields(args)...)...); err != nil {
			t.Fatal(err)
		}
		if got := f.errOut.String(); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
