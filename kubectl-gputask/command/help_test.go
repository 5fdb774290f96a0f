// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/kubectl-gputask/command"
	"falldio.github.io/gpu-controller/kubectl-gputask/goldentest"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"lists the commands in groups", "help", "help"},
		{"of a command with many flags has them in groups", "help-run", "run --help"},
		{"of a command with others below it", "help-queue", "help queue"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if err := f.run(strings.Fields(test.args)...); err != nil {
				t.Fatal(err)
			}
			goldentest.Compare(t, test.golden, f.out.String())
		})
	}
}

func TestFlagsOfAllCommandsAreListedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, child := range command.New(f.env).Commands() {
		if err := f.run(child.Name(), "--help"); err != nil {
			t.Fatal(err)
		}
		lists := strings.Contains(f.out.String(), "--kubeconfig string") || strings.Contains(f.out.String(), "--color string")
		if lists || !strings.Contains(f.out.String(), `Use "kubectl gputask options" for a list`) {
			t.Errorf("help of %s:\n%s", child.Name(), f.out.String())
		}
	}
	if err := f.run("options"); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"-n, --namespace string", "--kubeconfig string", "--color string"} {
		if !strings.Contains(f.out.String(), flag) {
			t.Errorf("no %s in\n%s", flag, f.out.String())
		}
	}
}

func TestErrorsOfFlagsSayWhereTheyAreExplained(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, args, want string }{
		{"an unknown flag", "run train --gpuss 8", "unknown flag: --gpuss\nSee 'kubectl gputask run --help'."},
		{"an unknown letter", "list -x", "unknown shorthand flag: 'x' in -x\nSee 'kubectl gputask list --help'."},
		{"of a command below another", "plan show a --to b", "unknown flag: --to\nSee 'kubectl gputask plan show --help'."},
		{"no value", "run train --gpus", "flag needs an argument: --gpus\nSee 'kubectl gputask run --help'."},
		{"no number", "run train --replicas four", "--replicas=four: must be a whole number\nSee 'kubectl gputask run --help'."},
		{"no length of time", "run train --deadline 2", "--deadline=2: must be a duration, for example 90s, 30m or 12h\nSee 'kubectl gputask run --help'."},
		{"neither true nor false", "run train --suspend=perhaps", "--suspend=perhaps: must be true or false\nSee 'kubectl gputask run --help'."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := errorText(newFixture(t).run(strings.Fields(test.args)...)); got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}

func TestGPUsHaveTheNameThatOthersGiveThem(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--gpus=2", "-g2", "--gpu-amount=2"} {
		f := newFixture(t)
		if err := f.run("run", "train", flag, "--dry-run=client", "-o", "jsonpath={.spec.gpu-amount}"); err != nil || f.out.String() != "2" {
			t.Errorf("%s: %v, %q", flag, err, f.out.String())
		}
	}
}
