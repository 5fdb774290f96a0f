// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvidia

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"tags.cncf.io/container-device-interface/specs-go"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// memoryHooks returns the hooks for memory of each device that has any.
func memoryHooks(spec *specs.Spec) map[string][]string {
	found := map[string][]string{}
	for i := range spec.Devices {
		device := &spec.Devices[i]
		for _, hook := range device.ContainerEdits.Hooks {
			if isMemoryHook(hook) {
				found[device.Name] = append(found[device.Name], fmt.Sprint(hook.HookName, " ", hook.Path, " ", hook.Args))
			}
		}
	}
	return found
}

func TestTheDriverIsAskedToLimitMemory(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		wanted  bool
		symbol  error
		limited bool
	}{
		"the driver can":   {true, nil, true},
		"an old driver":    {true, errors.New("no such symbol"), false},
		"it is not wanted": {false, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			library, dir := newMachine(t, 2)
			library.LookupSymbolFunc = func(name string) error {
				if name == memoryCall {
					return test.symbol
				}
				return nil
			}
			gpus := infosOf(library)
			generator := newGenerator(t, library, Options{HostRoot: dir, DriverRoot: "/", HookPath: hookPath, LimitMemory: test.wanted})
			spec, err := generator.Generate(gpus)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string][]string{}
			for i := range gpus {
				if test.limited {
					want[gpus[i].UUID] = []string{"createRuntime /usr/bin/nvidia-cdi-hook [nvidia-cdi-hook apply-cuda-memory-limits --driver-root / --gpu-id " + gpus[i].UUID + "]"}
				}
			}
			if diff := cmp.Diff(want, memoryHooks(spec)); diff != "" {
				t.Errorf("hooks (-want +got):\n%s", diff)
			}
			if generator.LimitsMemory() != test.limited {
				t.Errorf("it says that memory is limited: %v", !test.limited)
			}
		})
	}
}

// Later versions of NVIDIA's library add it themselves.
func TestTheHookIsAddedOnce(t *testing.T) {
	t.Parallel()
	library, _ := newMachine(t, 1)
	generator := newGenerator(t, library, Options{HookPath: hookPath, DriverRoot: "/"})
	spec := &specs.Spec{Devices: []specs.Device{{Name: "GPU-a"}, {Name: "GPU-a:0"}}}
	for range 2 {
		generator.limitMemory(spec, []gpu.Info{{UUID: "GPU-a"}})
	}
	if hooks := memoryHooks(spec); len(hooks) != 1 || len(hooks["GPU-a"]) != 1 {
		t.Errorf("hooks %v", hooks)
	}
}

func TestWhetherTheHookProgramLimitsMemory(t *testing.T) {
	t.Parallel()
	const chunk = 64 << 10
	padding := func(length int) string { return strings.Repeat("x", length) }
	tests := map[string]struct {
		files map[string]string
		can   bool
	}{
		"a program with the command":                {map[string]string{hookPath: padding(10) + memoryHook + padding(10)}, true},
		"at the end of a large program":             {map[string]string{hookPath: padding(5*chunk) + memoryHook}, true},
		"where two parts meet that are read":        {map[string]string{hookPath: padding(chunk-5) + memoryHook + padding(chunk)}, true},
		"where they overlap":                        {map[string]string{hookPath: padding(chunk+len(memoryHook)-1-5) + memoryHook + padding(chunk)}, true},
		"an old program":                            {map[string]string{hookPath: padding(3*chunk) + "update-ldcache"}, false},
		"a script that calls the program beside it": {map[string]string{hookPath: "#!/bin/sh", hookPath + ".real": memoryHook}, true},
		"no program":                                {nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := Options{HostRoot: t.TempDir(), HookPath: hookPath}
			for path, content := range test.files {
				path = filepath.Join(options.HostRoot, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := options.HookLimitsMemory()
			if (err == nil) != test.can || err != nil && !strings.Contains(err.Error(), "from version 1.20 on") {
				t.Errorf("error %v", err)
			}
		})
	}
}
