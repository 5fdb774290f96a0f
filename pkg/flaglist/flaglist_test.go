// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package flaglist

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestAListHasAllFlags(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Int("workers", 8, "how many")
	flags.String("hidden", "", "nobody sees it")
	flags.String("feature-gates", "", "A list of gates:\nkube:A=true|false\nkube:B=true|false")
	if err := flags.MarkHidden("hidden"); err != nil {
		t.Fatal(err)
	}
	want := []Flag{
		{Name: "feature-gates", Type: "string", Usage: "A list of gates:"},
		{Name: "hidden", Type: "string", Usage: "nobody sees it", Hidden: true},
		{Name: "workers", Type: "int", Default: "8", Usage: "how many"},
	}
	got := Of(flags)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("flags (-want +got):\n%s", diff)
	}
	path := filepath.Join(t.TempDir(), "flags.json")
	if err := Write(path, got); err != nil {
		t.Fatal(err)
	}
	read, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("flags from the file (-want +got):\n%s", diff)
	}
}

func TestADifferenceNamesTheFlag(t *testing.T) {
	t.Parallel()
	workers := Flag{Name: "workers", Type: "int", Default: "8", Usage: "how many"}
	more := workers
	more.Default = "16"
	tests := map[string]struct {
		list, program []Flag
		want          string // "" for no difference
	}{
		"the same":           {[]Flag{workers}, []Flag{workers}, ""},
		"a flag is new":      {nil, []Flag{workers}, "--workers: is not in the list"},
		"a flag is gone":     {[]Flag{workers}, nil, "--workers: the program does not have it any more"},
		"a default is other": {[]Flag{workers}, []Flag{more}, "--workers: is {"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Compare(test.list, test.program)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("unexpected difference: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("difference %v, want %q", err, test.want)
			}
		})
	}
}
