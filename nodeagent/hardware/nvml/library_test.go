// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// These tests use go-nvml itself, in processes of their own: what they test for
// is the end of the process.

// roleVariable makes the test binary play a program that uses a library.
const roleVariable = "NVML_TEST_ROLE"

// initVariable is what the stand-in for NVIDIA's library returns from nvmlInit.
const initVariable = "FAKE_NVML_INIT"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "no library":
		err = useNoLibrary(os.Args[1])
	case "old library":
		err = useOldLibrary(os.Args[1])
	case "new library":
		err = useNewLibrary(os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func play(t *testing.T, role string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], arguments...)
	command.Env = append(os.Environ(), roleVariable+"="+role)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("the process ended with %v:\n%s", err, output)
	}
	return string(output)
}

// expect returns an error unless err is the wanted one.
func expect(what string, err, want error) error {
	if !errors.Is(err, want) {
		return fmt.Errorf("%s: got error %w, want %v", what, err, want) //nolint:errorlint // only one of them happened
	}
	return nil
}

// expectClosed checks that a Source that could not be opened does nothing.
func expectClosed(source *Source) error {
	_, readErr := source.Read("GPU-old")
	_, timingsErr := source.Timings()
	return errors.Join(
		expect("Read", readErr, gpu.ErrStale),
		expect("Timings", timingsErr, gpu.ErrStale),
		expect("Watch", source.Watch(context.Background(), func(gpu.Event) {}), gpu.ErrStale),
		expect("Close", source.Close(), nil),
	)
}

func useNoLibrary(path string) error {
	source := New(Options{Library: path})
	for range 2 {
		_, err := source.Open()
		fmt.Println(err)
		if err := errors.Join(expect("Open", err, gpu.ErrUnavailable), expectClosed(source)); err != nil {
			return err
		}
	}
	return nil
}

func TestNoLibrary(t *testing.T) {
	output := play(t, "no library", filepath.Join(t.TempDir(), "libnvidia-ml.so.1"))
	t.Log(output)
	if strings.Count(output, "no GPU driver: ") != 2 || !strings.Contains(output, "ERROR_LIBRARY_NOT_FOUND") {
		t.Errorf("unexpected output: %s", output)
	}
}

func useOldLibrary(path string) error {
	source := New(Options{Library: path})
	for range 2 {
		for _, result := range []string{"9", "0"} { // DRIVER_NOT_LOADED, SUCCESS
			if err := os.Setenv(initVariable, result); err != nil {
				return err
			}
			inventory, err := source.Open()
			if result != "0" {
				fmt.Println(err)
				if err := errors.Join(expect("Open", err, gpu.ErrUnavailable), expectClosed(source)); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			sample, err := source.Read(inventory.GPUs[0].UUID)
			fmt.Printf("%+v %+v %v\n", inventory, sample.Values, err)
			if err := expect("Watch", source.Watch(context.Background(), func(gpu.Event) {}), gpu.ErrUnsupported); err != nil {
				return err
			}
			if _, err := source.Timings(); err != nil {
				return err
			}
		}
		if err := source.Close(); err != nil {
			return err
		}
	}
	return expectClosed(source)
}

func TestALibraryWithNextToNoFunctions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	buildLibrary(t, path, "300.01")
	output := play(t, "old library", path)
	t.Log(output)
	used := fmt.Sprintf("map[%d:600 %d:400 %d:51] <nil>", gpu.MemoryUsed, gpu.MemoryFree, gpu.Temperature)
	if strings.Count(output, used) != 2 || strings.Count(output, "UUID:GPU-old") != 2 || strings.Count(output, "Driver Not Loaded") != 2 {
		t.Errorf("unexpected output: %s", output)
	}
}

func useNewLibrary(path, replacement string) error {
	source := New(Options{Library: path})
	for _, next := range []string{replacement, ""} {
		inventory, err := source.Open()
		if err != nil {
			return err
		}
		fmt.Println("version", inventory.Driver.Version)
		if err := source.Close(); err != nil {
			return err
		}
		if next == "" {
			break
		}
		if err := os.Rename(next, path); err != nil {
			return err
		}
		source = New(Options{Library: path})
	}
	return nil
}

// The reason for gpu.ErrRestart.
func TestALibraryStaysInTheProcess(t *testing.T) {
	dir := t.TempDir()
	path, replacement := filepath.Join(dir, "libnvidia-ml.so.1"), filepath.Join(dir, "new")
	buildLibrary(t, path, "300.01")
	buildLibrary(t, replacement, "300.02")
	if got, want := play(t, "new library", path, replacement), "version 300.01\nversion 300.01\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The mocks can't play the numbered structures of the function that reports the fabric.
func TestALibraryThatReportsTheFabricByNumberedStructures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	buildLibrary(t, path, "550.01", "-DFABRIC")
	output := play(t, "old library", path)
	t.Log(output)
	if want := fmt.Sprintf("%d:1]", gpu.FabricReady); strings.Count(output, want) != 2 {
		t.Errorf("unexpected output, want %q twice: %s", want, output)
	}
}

func buildLibrary(t *testing.T, path, version string, flags ...string) {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler: ", err)
	}
	arguments := []string{"-shared", "-fPIC", "-DVERSION=\"" + version + "\"", "-Wl,-soname,libnvidia-ml.so.1", "-o", path, "testdata/oldlibrary.c"}
	command := exec.CommandContext(t.Context(), compiler, append(arguments, flags...)...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
}
