// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package blackbox probes targets with the library of Prometheus'
// blackbox_exporter, by modules in its own configuration format.
package blackbox

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/blackbox_exporter/config"
	"gopkg.in/yaml.v3"
)

//go:embed modules.yaml
var defaultModules []byte

// Modules are ways to probe, by name.
type Modules struct {
	byName map[string]config.Module
}

// DefaultModules returns http_2xx, tcp_connect and icmp.
func DefaultModules() (*Modules, error) { return ParseModules(defaultModules) }

// LoadModules reads modules from a file.
func LoadModules(path string) (*Modules, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user chose it
	if err != nil {
		return nil, fmt.Errorf("reading the modules: %w", err)
	}
	modules, err := ParseModules(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return modules, nil
}

// ParseModules reads modules in blackbox_exporter's format. A field that it does
// not know is an error.
func ParseModules(data []byte) (*Modules, error) {
	var parsed config.Config
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&parsed); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(parsed.Modules) == 0 {
		return nil, errors.New("there are no modules")
	}
	for name, module := range parsed.Modules {
		if probers[module.Prober] == nil {
			return nil, fmt.Errorf("modules.%s.prober: %q is none of %s", name, module.Prober, list(probers))
		}
		if module.Timeout < 0 {
			return nil, fmt.Errorf("modules.%s.timeout: must not be negative", name)
		}
		parsed.Modules[name] = confine(module)
	}
	return &Modules{byName: parsed.Modules}, nil
}

// maxBodyBytes is how much of an answer is read where the module sets no limit:
// blackbox_exporter would read on until the timeout, and keep all of it in memory
// if it has to search it.
const maxBodyBytes = 1 << 20

// confine takes from a module what would reach beyond the target.
func confine(module config.Module) config.Module {
	// A redirect leads to wherever the target says, allowed or not.
	module.HTTP.HTTPClientConfig.FollowRedirects = false
	if module.HTTP.BodySizeLimit == 0 {
		module.HTTP.BodySizeLimit = maxBodyBytes
	}
	return module
}

// Has reports whether there is a module of that name.
func (m *Modules) Has(name string) bool {
	_, known := m.byName[name]
	return known
}

// Names lists the modules for a message.
func (m *Modules) Names() string { return list(m.byName) }

func list[T any](byName map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(byName)), ", ")
}
