// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/kubectl-gputask/command"
)

// shownCommands returns the arguments of each call of the plugin that a text shows, in a block or in a sentence, up to
// what belongs to the shell.
func shownCommands(text string) (calls [][]string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, match := range regexp.MustCompile("kubectl gputask( [a-z][^\n`|>;&#)]*)").FindAllStringSubmatch(text, -1) {
		calls = append(calls, strings.Fields(match[1]))
	}
	return calls
}

// parsed returns an error unless there are the command, its flags and as many arguments.
func parsed(t *testing.T, args []string) error {
	t.Helper()
	found, rest, err := command.New(newFixture(t).env).Find(args)
	if err != nil {
		return err
	}
	if err := found.ParseFlags(rest); err != nil {
		return err
	}
	return found.ValidateArgs(found.Flags().Args())
}

func TestTheCommandsInGuidesExist(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../docs/guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range shownCommands(string(text)) {
			count++
			if err := parsed(t, args); err != nil && len(args) > 1 { // a word alone is a command's name in a sentence
				t.Errorf("%s: kubectl gputask %s: %v", filepath.Base(path), strings.Join(args, " "), err)
			} else if err != nil && strings.Contains(err.Error(), "unknown command") {
				t.Errorf("%s: %v", filepath.Base(path), err)
			}
		}
	}
	if count < 50 {
		t.Errorf("found only %d commands in the guides: is their form another one?", count)
	}
}

func TestAWrongCommandOfAGuideIsNoticed(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]bool{
		"`kubectl gputask logs train -f`":                       false,
		"kubectl gputask new jax > jax.yaml":                    false,
		"kubectl gputask run a \\\n  --gpus 1 -- nvidia-smi -l": false,
		"kubectl gputask log train":                             true,
		"kubectl gputask logs train --folow":                    true,
		"kubectl gputask new jax | kubectl gputask runn -f -":   true,
		"kubectl gputask scale sweep more --replicas":           true,
		"kubectl gputask run train --replicas=two | cat":        true,
		"$(kubectl gputask new jax ray)":                        true,
	} {
		got := false
		for _, args := range shownCommands(text) {
			got = got || parsed(t, args) != nil
		}
		if got != wrong {
			t.Errorf("%q is taken as wrong: %v", text, got)
		}
	}
}
