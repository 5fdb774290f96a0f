// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nvidia

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// memoryHook is the command of nvidia-cdi-hook, from version 1.20 on, that limits the memory of
// a container's control group.
const memoryHook = "apply-cuda-memory-limits"

// HookLimitsMemory returns an error if the program nvidia-cdi-hook is too old to limit memory,
// going by whether the command's name is in it. The GPU Operator installs it beside a script
// of the name that calls it.
func (o *Options) HookLimitsMemory() error {
	var problems []error
	for _, path := range []string{o.HookPath, o.HookPath + ".real"} {
		found, err := contains(filepath.Join(o.HostRoot, path), memoryHook)
		if found {
			return nil
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(append(problems, fmt.Errorf("%s has no command %s: NVIDIA's Container Toolkit has it from version 1.20 on", o.HookPath, memoryHook))...)
}

// contains reports whether a file contains a text. It does not read it into memory as a whole.
func contains(path, text string) (found bool, err error) {
	file, err := os.Open(path) //nolint:gosec // an administrator chooses the path
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	const chunk = 64 << 10
	// The end of each chunk is searched again with the next one.
	overlap := len(text) - 1
	buffer := make([]byte, overlap+chunk)
	for kept := 0; ; {
		read, err := io.ReadFull(file, buffer[kept:])
		if bytes.Contains(buffer[:kept+read], []byte(text)) {
			return true, nil
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		kept = copy(buffer, buffer[len(buffer)-overlap:])
	}
}
