// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package blackbox probes targets with the library of Prometheus' blackbox_exporter, with
// modules in its configuration format.
package blackbox

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/blackbox_exporter/config"
	"gopkg.in/yaml.v3"

	"falldio.github.io/gpu-controller/pkg/configfile"
)

//go:embed modules.yaml
var defaultModules []byte

// Modules are ways to probe, by name.
type Modules struct {
	byName map[string]config.Module
}

// DefaultModules returns http_2xx, tcp_connect and icmp.
func DefaultModules() (*Modules, error) { return ParseModules(defaultModules) }

// LoadModules loads modules from a file.
func LoadModules(path string) (*Modules, error) {
	return configfile.Load("the modules", path, ParseModules)
}

// ParseModules parses modules in blackbox_exporter's format. Unknown fields are an error.
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
			return nil, fmt.Errorf("modules.%s.prober: %q is not one of %s", name, module.Prober, list(probers))
		}
		if module.Timeout < 0 {
			return nil, fmt.Errorf("modules.%s.timeout: must not be negative", name)
		}
		parsed.Modules[name] = restrict(module)
	}
	return &Modules{byName: parsed.Modules}, nil
}

// maxBodyBytes limits the body of a response if the module sets no limit: blackbox_exporter
// would read until the timeout, and keep the body in memory if it has to search it.
const maxBodyBytes = 1 << 20

// restrict keeps a module from reaching beyond the target.
func restrict(module config.Module) config.Module {
	// A target may redirect to any host, allowed or not.
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

// Names returns the names of the modules, for messages.
func (m *Modules) Names() string { return list(m.byName) }

func list[T any](byName map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(byName)), ", ")
}
