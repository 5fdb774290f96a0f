// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flaglist keeps the list of a program's flags in a file, for what is generated from it: the
// values of the Helm chart. A program is a package main, whose flags no other package can ask for; so
// a test of each program compares its flags with the file, or writes it.
package flaglist

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Flag is one flag of a program.
type Flag struct {
	Name string `json:"name"`
	// Type is the name of its type as pflag has it, for example "duration".
	Type string `json:"type"`
	// Default is the program's default, as text.
	Default string `json:"default,omitempty"`
	Usage   string `json:"usage"`
	// Hidden is true if users are not told of it, although it is accepted: as it was a flag of an earlier version, for
	// example.
	Hidden bool `json:"hidden,omitempty"`
}

// Of returns the flags of a program in alphabetical order.
func Of(flags *pflag.FlagSet) []Flag {
	var list []Flag
	flags.VisitAll(func(flag *pflag.Flag) {
		list = append(list, Flag{
			Name: flag.Name, Type: flag.Value.Type(), Default: flag.DefValue, Usage: withoutGates(flag.Usage), Hidden: flag.Hidden,
		})
	})
	slices.SortFunc(list, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// withoutGates leaves out the list of all feature gates of Kubernetes, two hundred lines.
func withoutGates(usage string) string {
	text, _, _ := strings.Cut(usage, "\nkube:")
	return text
}

// Check compares the flags of a program with the list of them in a file. With update it writes the
// file instead.
func Check(path string, flags *pflag.FlagSet, update bool) error {
	program := Of(flags)
	if update {
		return Write(path, program)
	}
	list, err := Read(path)
	if err != nil {
		return err
	}
	if err := Compare(list, program); err != nil {
		return fmt.Errorf("%s is out of date: run make generate and commit the result:\n%w", path, err)
	}
	return nil
}

// Read returns the list in a file.
func Read(path string) ([]Flag, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the caller names the file
	if err != nil {
		return nil, err
	}
	var list []Flag
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// Write writes a list into a file.
func Write(path string, list []Flag) error {
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // a source file
}

// Compare returns an error that names the flags in which a program differs from the list of it.
func Compare(list, program []Flag) error {
	var problems []error
	kept := map[string]Flag{}
	for _, flag := range list {
		kept[flag.Name] = flag
	}
	for _, flag := range program {
		before, known := kept[flag.Name]
		delete(kept, flag.Name)
		switch {
		case !known:
			problems = append(problems, fmt.Errorf("--%s: is not in the list", flag.Name))
		case before != flag:
			problems = append(problems, fmt.Errorf("--%s: is %+v, in the list %+v", flag.Name, flag, before))
		}
	}
	for _, flag := range list {
		if _, left := kept[flag.Name]; left {
			problems = append(problems, fmt.Errorf("--%s: the program does not have it any more", flag.Name))
		}
	}
	return errors.Join(problems...)
}
