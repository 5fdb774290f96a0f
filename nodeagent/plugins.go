package main

import (
	"context"

	"falldio.github.io/gpu-controller/nodeagent/monitor"
)

type plugins struct{}

func newPlugins(context.Context, *agent, *clients, *options) (*plugins, error) { return nil, nil }
func (p *plugins) run(context.Context, *monitor.Monitor, <-chan struct{}) error { return nil }
func (p *plugins) refresh(context.Context)                                   {}
func (p *plugins) ready() error                                              { return nil }
