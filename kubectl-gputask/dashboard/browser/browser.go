// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package browser opens an address with a secret in the user's browser.
package browser

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Open opens an address. Other users of the machine can see the arguments of programs, so the browser is given a file
// that only the user can read, and which leads to the address. The returned function deletes it.
func Open(ctx context.Context, address string) (remove func(), err error) {
	opener, err := find()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "kubectl-gputask-")
	if err != nil {
		return nil, fmt.Errorf("opening the browser: %w", err)
	}
	remove = func() { _ = os.RemoveAll(folder) } // it is in a folder for temporary files
	file := filepath.Join(folder, "dashboard.html")
	text := `<!DOCTYPE html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=` + html.EscapeString(address) + `">`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		remove()
		return nil, fmt.Errorf("opening the browser: %w", err)
	}
	command := exec.CommandContext(ctx, opener[0], append(opener[1:], file)...)
	if err := command.Start(); err != nil {
		remove()
		return nil, fmt.Errorf("opening the browser: %w", err)
	}
	go func() { _ = command.Wait() }() // whether a browser opens is seen by the user
	return remove, nil
}

// find returns the program that opens files with the user's browser.
func find() ([]string, error) {
	switch runtime.GOOS {
	case "darwin":
		return []string{"open"}, nil
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}, nil
	}
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return nil, errors.New("there is no screen for a browser")
	}
	if path, err := exec.LookPath("xdg-open"); err == nil {
		return []string{path}, nil
	}
	return nil, errors.New("there is no program xdg-open")
}
