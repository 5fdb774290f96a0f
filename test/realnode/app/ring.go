// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// ring is a member's place in a ring: it sends to the next one and receives from the previous one.
type ring struct {
	rank, size     int
	previous, next net.Conn
}

// allReduce replaces a vector by the sum of all members' vectors, with the ring algorithm of
// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009),
// which NCCL and gloo use, too: after size-1 steps each member has the sum of one chunk; after
// another size-1, all have all chunks.
func (r *ring) allReduce(vector []float64) error {
	for step := range r.size - 1 {
		received, err := r.exchange(r.chunk(vector, r.rank-step), len(r.chunk(vector, r.rank-step-1)))
		if err != nil {
			return err
		}
		for i, value := range received {
			r.chunk(vector, r.rank-step-1)[i] += value
		}
	}
	for step := range r.size - 1 {
		received, err := r.exchange(r.chunk(vector, r.rank+1-step), len(r.chunk(vector, r.rank-step)))
		if err != nil {
			return err
		}
		copy(r.chunk(vector, r.rank-step), received)
	}
	return nil
}

// chunk returns one of size parts of a vector; the number is taken modulo size.
func (r *ring) chunk(vector []float64, number int) []float64 {
	number = (number%r.size + r.size) % r.size
	return vector[number*len(vector)/r.size : (number+1)*len(vector)/r.size]
}

// exchange sends values to the next member while it receives a number of them from the previous
// one.
func (r *ring) exchange(send []float64, count int) ([]float64, error) {
	sent := make(chan error, 1)
	go func() { sent <- binary.Write(r.next, binary.LittleEndian, send) }()
	received := make([]float64, count)
	err := binary.Read(io.Reader(r.previous), binary.LittleEndian, received)
	return received, errors.Join(err, <-sent)
}
