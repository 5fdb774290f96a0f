// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// The images that every node has. There is no registry: they are built here.
const (
	// AppImage is a program that only runs: test/realnode/app.
	AppImage   = "localhost/app:1"
	PauseImage = "localhost/pause:1"
)

// imageConfig is the part of an image's configuration that is needed:
// https://github.com/opencontainers/image-spec/blob/main/config.md
type imageConfig struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Config       struct {
		Entrypoint []string
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// WriteImage writes an archive like "docker save": an image with the given names
// that contains only one program and the libraries of this machine that it needs.
func WriteImage(archive, program string, names ...string) error {
	entrypoint := "/" + filepath.Base(program)
	files, err := filesOf(program, entrypoint)
	if err != nil {
		return err
	}
	layer, err := tarOf(files...)
	if err != nil {
		return err
	}
	var image imageConfig
	image.Architecture, image.OS = runtime.GOARCH, "linux"
	image.Config.Entrypoint = []string{entrypoint}
	image.RootFS.Type = "layers"
	image.RootFS.DiffIDs = []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}
	config, err := json.Marshal(image)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": names, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	content, err := tarOf(
		tarFile{name: "layer.tar", mode: 0o644, data: layer},
		tarFile{name: "config.json", mode: 0o644, data: config},
		tarFile{name: "manifest.json", mode: 0o644, data: manifest},
	)
	if err != nil {
		return err
	}
	return os.WriteFile(archive, content, 0o600)
}

// filesOf returns the files of an image: the program and its libraries.
func filesOf(program, entrypoint string) ([]tarFile, error) {
	libraries, err := librariesOf(program)
	if err != nil {
		return nil, err
	}
	var files []tarFile
	for _, path := range libraries {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, tarFile{name: path[1:], mode: 0o755, data: data})
	}
	data, err := os.ReadFile(program)
	return append(files, tarFile{name: entrypoint[1:], mode: 0o755, data: data}), err
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

type tarFile struct {
	name string
	mode int64
	data []byte
}

func tarOf(files ...tarFile) ([]byte, error) {
	var content bytes.Buffer
	writer := tar.NewWriter(&content)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.data)), Typeflag: tar.TypeReg}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(file.data); err != nil {
			return nil, err
		}
	}
	err := writer.Close()
	return content.Bytes(), err
}
