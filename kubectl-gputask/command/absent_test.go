// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
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

func TestRunNamesTheFieldsThatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	f.tasks.PrependReactor("create", "gputasks", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(v1.TaskKind().GroupKind(), "train", field.ErrorList{
			field.Invalid(field.NewPath("spec", "cpu"), "many", "must be a quantity of CPU cores"),
			field.Invalid(nil, nil, "some validation rules were not checked"),
		})
	})
	if got, want := errorText(f.run("run", "train", "--cpu=many")), `creating the task: spec.cpu: Invalid value: "many": must be a quantity of CPU cores`; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
