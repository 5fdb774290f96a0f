// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"go/build"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const module = "falldio.github.io/gpu-controller"

// TestDockerfilesCopyWhatTheirProgramImports: no machine of ours builds the images.
func TestDockerfilesCopyWhatTheirProgramImports(t *testing.T) {
	t.Parallel()
	for dockerfile, program := range map[string]string{"Dockerfile": ".", "Dockerfile.scheduler": "scheduler", "Dockerfile.nodeagent": "nodeagent"} {
		root := filepath.Join("..", "..")
		content, err := os.ReadFile(filepath.Join(root, dockerfile))
		if err != nil {
			t.Fatal(err)
		}
		for folder := range importedFolders(t, root, program) {
			if copies := "COPY " + folder + " " + folder; !strings.Contains(string(content), "\n"+copies+"\n") {
				t.Errorf("%s: the program imports packages in %s: it needs a line %q", dockerfile, folder, copies)
			}
		}
	}
}

// importedFolders returns the top-level folders with packages that a package imports, whether directly or
// not.
func importedFolders(t *testing.T, root, program string) map[string]bool {
	t.Helper()
	folders, seen, queue := map[string]bool{}, map[string]bool{}, []string{program}
	for len(queue) > 0 {
		folder := queue[0]
		queue = queue[1:]
		if seen[folder] {
			continue
		}
		seen[folder] = true
		if top, _, _ := strings.Cut(folder, "/"); top != "." {
			folders[top] = true
		}
		pkg, err := build.ImportDir(filepath.Join(root, folder), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range pkg.Imports {
			if inner, ours := strings.CutPrefix(path, module+"/"); ours {
				queue = append(queue, inner)
			}
		}
	}
	return folders
}
