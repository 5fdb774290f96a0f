// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// steps is how many steps the training has, stepPause the time between them.
	steps     = 10
	stepPause = 100 * time.Millisecond
	// meetLimit is how long the members may take to find each other.
	meetLimit  = time.Minute
	retryPause = 200 * time.Millisecond
	// dialLimit is for one attempt to reach a member. For some seconds after a restart, DNS may
	// answer with the address of the Pod before: the next attempt looks the name up again.
	dialLimit = 2 * time.Second
)

// gang is what a member knows of its gang: from its environment, like any framework.
type gang struct {
	rank, size int
	// master is rank 0's name in DNS, port the port on which all members listen.
	master, port string
}

func newGang() (*gang, error) {
	rank, errRank := strconv.Atoi(os.Getenv("RANK"))
	size, errSize := strconv.Atoi(os.Getenv("WORLD_SIZE"))
	return &gang{rank: rank, size: size, master: os.Getenv("MASTER_ADDR"), port: os.Getenv("MASTER_PORT")}, errors.Join(errRank, errSize)
}

// nameOf returns a member's name in DNS: "train-2.train" if rank 0 is "train-0.train".
func (g *gang) nameOf(rank int) string {
	host, service, _ := strings.Cut(g.master, ".")
	return strings.TrimSuffix(host, "0") + strconv.Itoa(rank) + "." + service
}

// train sums vectors of all members until they have done all steps. The first attempt of a task
// goes on until it is killed.
func train(ctx context.Context) error {
	g, err := newGang()
	if err != nil {
		return err
	}
	r, err := g.connect(ctx)
	if err != nil {
		return err
	}
	endless := os.Getenv("ATTEMPT") == "0"
	for step := 1; endless || step <= steps; step++ {
		if err := g.check(r, step); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		fmt.Printf("step %d of attempt %s: the sum over %d members is right\n", step, os.Getenv("ATTEMPT"), g.size)
		time.Sleep(stepPause)
	}
	return nil
}

// check sums a vector over all members and compares the result with what it must be.
func (g *gang) check(r *ring, step int) error {
	const length = 10_007 // not a multiple of the gang's size
	vector := make([]float64, length)
	for i := range vector {
		vector[i] = float64((g.rank + 1) * (i%7 + step))
	}
	if err := r.allReduce(vector); err != nil {
		return err
	}
	for i, got := range vector {
		if want := float64(g.size * (g.size + 1) / 2 * (i%7 + step)); got != want {
			return fmt.Errorf("element %d is %v, want %v", i, got, want)
		}
	}
	return nil
}

// connect connects a member with its two neighbours in the ring.
func (g *gang) connect(ctx context.Context) (*ring, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+g.port)
	if err != nil {
		return nil, err
	}
	r := &ring{rank: g.rank, size: g.size}
	accepted := make(chan error, 1)
	go func() {
		var err error
		r.previous, err = listener.Accept()
		accepted <- err
	}()
	next := g.nameOf((g.rank + 1) % g.size)
	err = retry(func() error {
		var err error
		r.next, err = (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "tcp", net.JoinHostPort(next, g.port))
		return err
	})
	if err != nil {
		return nil, err
	}
	fmt.Printf("%s is at %s\n", next, r.next.RemoteAddr())
	return r, <-accepted
}

// retry calls do until it succeeds, for meetLimit.
func retry(do func() error) error {
	deadline := time.Now().Add(meetLimit)
	for {
		err := do()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(retryPause)
	}
}
