// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	containers "github.com/google/go-containerregistry/pkg/v1"

	"falldio.github.io/gpu-controller/hack/release/archive"
	"falldio.github.io/gpu-controller/hack/release/image"
)

// The images that every node has. There is no registry: they are built here.
const (
	// AppImage is a program that only runs: test/realnode/app.
	AppImage   = "localhost/app:1"
	PauseImage = "localhost/pause:1"
)

// WriteImage writes an OCI archive of an image with a name, "repository:tag", that contains only one
// program and the libraries of this machine that it needs.
func WriteImage(path, program, name string) error {
	files, err := filesOf(program)
	if err != nil {
		return err
	}
	repository, tag, _ := strings.Cut(name, ":")
	built, err := image.Build(&image.Spec{
		Name: repository, Version: tag, Architecture: runtime.GOARCH, Created: time.Unix(0, 0),
		Entrypoint: "/" + filepath.Base(program), Layers: [][]archive.File{files},
	})
	if err != nil {
		return err
	}
	index, err := image.Index([]containers.Image{built})
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(image.WriteArchive(file, index, repository, tag), file.Close())
}

// filesOf returns the files of an image: the program and its libraries.
func filesOf(program string) ([]archive.File, error) {
	const executable = 0o755
	libraries, err := librariesOf(program)
	if err != nil {
		return nil, err
	}
	var files []archive.File
	for _, path := range libraries {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, archive.File{Path: path[1:], Mode: executable, Data: data})
	}
	data, err := os.ReadFile(program)
	return append(files, archive.File{Path: filepath.Base(program), Mode: executable, Data: data}), err
}

// librariesOf returns the paths of a program's libraries, as the dynamic linker
// resolves them. A static program has none.
func librariesOf(program string) ([]string, error) {
	output, err := exec.Command("ldd", program).CombinedOutput()
	if strings.Contains(string(output), "not a dynamic executable") {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w: %s", program, err, output)
	}
	var libraries []string
	for line := range strings.Lines(string(output)) {
		for field := range strings.FieldsSeq(line) {
			if strings.HasPrefix(field, "/") {
				libraries = append(libraries, field)
			}
		}
	}
	return libraries, nil
}
