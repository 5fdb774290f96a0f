// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

// Status is the state of a Plugin.
type Status struct {
	// Registered is true while the kubelet reads the latest registration's stream of devices.
	Registered bool
	// Registrations counts the registrations that the kubelet has accepted.
	Registrations int
	// Allocations counts the containers that were given devices.
	Allocations int64
	// LastError is why the Plugin is not registered; nil if it is, or if that is not known
	// yet.
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

// Resource returns the name of the resource.
func (p *Plugin) Resource() string { return p.config.Resource }

// Pool returns the devices of the resource.
func (p *Plugin) Pool() *Pool { return p.config.Pool }

func (p *Plugin) setError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastError = err
}

func (p *Plugin) countRegistration() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.registrations++
	p.lastError = nil
}
