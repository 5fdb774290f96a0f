// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"falldio.github.io/gpu-controller/bench/process"
)

// profile starts to write a CPU profile of each process that serves one into a folder;
// the function that it returns waits for the end.
func (a *arena) profile(ctx context.Context, m *measurement) func() error {
	if a.options.profiles == "" {
		return func() error { return nil }
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range a.processes {
		if p := &a.processes[i]; p.Flag("secure-port") != "" {
			group.Go(func() error { return a.fetchProfile(ctx, m, p) })
		}
	}
	return group.Wait
}

// fetchProfile writes the profile of a process, if it serves any.
func (a *arena) fetchProfile(ctx context.Context, m *measurement, p *process.Process) (err error) {
	o := a.options
	if err := sleep(ctx, o.profileAfter); err != nil {
		return err
	}
	config, err := a.cluster.Config()
	if err != nil {
		return err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	url := fmt.Sprintf("https://%s:%s/debug/pprof/profile?seconds=%d", p.Flag("bind-address"), p.Flag("secure-port"), int(o.profileFor.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil
	}
	name := fmt.Sprintf("%s-%s-%dx%d-%d.pprof", m.system.name, p.Name, m.kind.gangs, m.kind.size, m.round)
	file, err := os.Create(filepath.Join(o.profiles, name)) //nolint:gosec // the user names the folder
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = io.Copy(file, response.Body)
	return err
}
