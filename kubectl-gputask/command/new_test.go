// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/template"
)

// withoutCluster has no kubeconfig.
func withoutCluster(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.env.Connect = func(*genericclioptions.ConfigFlags) (*cluster.Clients, error) { return nil, errors.New("no cluster") }
	return f
}

func TestNewNeedsNoCluster(t *testing.T) {
	t.Parallel()
	for _, name := range template.Names() {
		f := withoutCluster(t)
		if err := f.run("new", name); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(f.out.String(), "# "+template.Summary(name)+"\napiVersion: ") {
			t.Errorf("new %s prints\n%s", name, f.out.String())
		}
	}
}

func TestNewListsTheTemplates(t *testing.T) {
	t.Parallel()
	f := withoutCluster(t)
	if err := f.run("new"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(f.out.String()), "\n")
	if len(lines) != len(template.Names()) || lines[0] != "accelerate   Fine-tuning with Hugging Face Accelerate and Transformers" {
		t.Errorf("new prints\n%s", f.out.String())
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, args, want string }{
		{"a misspelt name", "new pytorch-fsdp", "(did you mean pytorch-ddp?)"},
		{"a part of a name", "new pytorch", "(did you mean pytorch-ddp?)"},
		{"a name that resembles none", "new horovod", `there is no template "horovod"; there are accelerate, deepspeed, `},
		{"two names", "new jax ray", "accepts at most 1 arg(s), received 2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := errorText(withoutCluster(t).run(strings.Fields(test.args)...)); !strings.Contains(got, test.want) {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}
