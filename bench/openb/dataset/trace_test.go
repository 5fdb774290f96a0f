// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/pkg/placement"
)

const podHeader = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPodsAskForWholeGPUsOrAShareOrNone(t *testing.T) {
	pods, err := ReadPods(write(t, podHeader+"a,1000,512,1,1000,\nb,1000,512,1,460,A10|T4\nc,1000,512,4,1000,\nd,1000,512,0,0,\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []placement.Shape
	for _, p := range pods {
		got = append(got, p.Shape)
	}
	want := []placement.Shape{
		{CPU: 1000, Memory: 512, GPUs: 1},
		{CPU: 1000, Memory: 512, Share: 46, Models: []string{"A10", "T4"}},
		{CPU: 1000, Memory: 512, GPUs: 4},
		{CPU: 1000, Memory: 512},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shapes (-want +got):\n%s", diff)
	}
}

func TestAnErrorInAFileNamesTheLine(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a number that is none":     {podHeader + "a,1000,512,1,1000,\nb,many,512,1,460,\n", "file.csv:3: column cpu_milli"},
		"a share with half percent": {podHeader + "a,1000,512,1,465,\n", "file.csv:2: column gpu_milli: 465"},
		"a column that is missing":  {"name,cpu_milli\na,1000\n", "file.csv:2: there is no column"},
		"a file without lines":      {podHeader, "there is no line after the header"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadPods(write(t, test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
