// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

// Status is what can be told about a Plugin.
type Status struct {
	// Registered is true while the kubelet listens to the Plugin.
	Registered bool
	// Registrations counts how often the kubelet has accepted the Plugin.
	Registrations int
	// Allocations counts the containers that got devices.
	Allocations int64
	// LastError is why the Plugin is not registered; nil if it is, or if it is
	// too early to tell.
	LastError error
}

// Status returns the Plugin's state.
func (p *Plugin) Status() Status {
	_, open := p.streams.state()
	p.mu.Lock()
	defer p.mu.Unlock()
	status := Status{
		Registered: open, Registrations: p.registrations,
		Allocations: p.service.allocations.Load(), LastError: p.lastError,
	}
	if open {
		status.LastError = nil
	}
	return status
}

// Resource is the name of the resource.
func (p *Plugin) Resource() string { return p.config.Resource }

// Pool is the devices of the resource.
func (p *Plugin) Pool() *Pool { return p.config.Pool }

func (p *Plugin) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastError = err
}

func (p *Plugin) registered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.registrations++
	p.lastError = nil
}
