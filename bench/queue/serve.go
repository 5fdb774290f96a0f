// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

// serveArrival decides about a job that has just been submitted; at is its place in the
// line. Nothing has become free, so that only the job itself may start, and only it may need a
// reservation.
func (s *system) serveArrival(j *job, at int) error {
	switch {
	case s.strict:
		if at == 0 && len(s.line.jobs) == 1 {
			return s.serve()
		}
		return nil
	case s.claims:
		return s.serveWithClaims([]*job{j})
	case s.reserved == 0:
		_, err := s.tryNow(j)
		return err
	}
	started, err := s.tryBeside(j)
	if started || err != nil || at >= s.reserved {
		return err
	}
	return s.serve()
}

// serve starts all jobs that may start now.
func (s *system) serve() error {
	switch {
	case !s.claims && !s.line.fits(s.cluster):
		return nil
	case s.strict:
		return s.serveStrictly()
	case s.claims:
		return s.serveWithClaims(s.line.jobs)
	case s.reserved == 0:
		return s.serveSkipping()
	default:
		return s.serveWithReservations()
	}
}

// tryNow starts a job if it fits.
func (s *system) tryNow(j *job) (started bool, err error) {
	plan := s.plan(j)
	if plan == nil {
		return false, nil
	}
	return true, s.start(j, plan)
}

// serveStrictly starts jobs until one does not fit.
func (s *system) serveStrictly() error {
	for len(s.line.jobs) > 0 {
		if started, err := s.tryNow(s.line.jobs[0]); !started || err != nil {
			return err
		}
	}
	return nil
}

// serveSkipping starts all that fit, in order.
func (s *system) serveSkipping() error {
	if s.order != nil {
		s.reorderByHand()
	}
	refused := map[*placement.Request]int{} // the least number of members that did not fit
	for i := 0; i < len(s.line.jobs) && s.used < s.capacity(); {
		j := s.line.jobs[i]
		if least := refused[j.request]; least > 0 && j.members >= least {
			i++
			continue
		}
		started, err := s.tryNow(j)
		if err != nil {
			return err
		}
		if !started {
			refused[j.request] = j.members
			i++
		} else if s.order != nil { // the order depends on who holds how much
			s.reorderByHand()
			i = 0
		}
	}
	return nil
}

// serveWithReservations revises the reservations of those that come first, starts those whose
// time has come, and then others that are not in their way.
func (s *system) serveWithReservations() error {
	for started := len(s.line.jobs) > 0; started; {
		started = false
		first := s.first()
		s.revise(first)
		for i, j := range first {
			if r := &s.reservations[i]; r.StartsBy(s.now) {
				started = true
				if err := s.start(j, r.Plan); err != nil {
					return err
				}
			}
		}
	}
	return s.serveBesideReservations()
}

// first returns the jobs that get reservations: those that have one, so that promises are kept,
// and those that come first.
func (s *system) first() []*job {
	list := make([]*job, 0, s.reserved)
	if s.keep {
		for i := range s.reservations {
			if j := s.waiting[s.reservations[i].Key]; j != nil && s.reservations[i].Plan != nil && len(list) < s.reserved {
				list = append(list, j)
			}
		}
	}
	for _, j := range s.line.jobs[:min(s.reserved, len(s.line.jobs))] {
		if len(list) < s.reserved && !slices.Contains(list, j) {
			list = append(list, j)
		}
	}
	return list
}

// serveBesideReservations starts others that are not in the way of reservations.
func (s *system) serveBesideReservations() error {
	refused := map[class]time.Duration{} // the shortest bound that was refused
	for i := 0; i < len(s.line.jobs) && s.used < s.capacity(); {
		j := s.line.jobs[i]
		if s.isReserved(j) {
			i++
			continue
		}
		bound := j.bound()
		if bound == 0 {
			bound = forever
		}
		kind := class{j.request, j.members}
		if shortest, known := refused[kind]; known && bound >= shortest {
			i++
			continue
		}
		started, err := s.tryBeside(j)
		if err != nil {
			return err
		}
		if !started {
			refused[kind] = bound
			i++
		}
	}
	return nil
}

func (s *system) isReserved(j *job) bool {
	return slices.ContainsFunc(s.reservations, func(r backfill.Booking) bool { return r.Key == j.key })
}

const forever = time.Duration(1<<63 - 1)

// revise revises the reservations of the jobs that come first.
func (s *system) revise(first []*job) {
	in := &backfill.Input{Cluster: s.cluster, Now: s.now, Running: make([]backfill.Running, 0, len(s.running))}
	for _, j := range s.running {
		in.Running = append(in.Running, backfill.Running{Key: j.key, Pods: j.pods, Ends: j.plannedEnd(s.now)})
	}
	for _, j := range first {
		in.Waiting = append(in.Waiting, backfill.Waiting{Key: j.key, Gang: j.gang, Bound: j.bound()})
	}
	var changes []backfill.Change
	s.reservations, changes = backfill.Revise(in, s.reservations)
	for i := range s.reservations {
		if r := &s.reservations[i]; r.Plan != nil && first[i].promised.IsZero() {
			first[i].promised = r.From
			s.moved.made++
		}
	}
	for i := range changes {
		if changes[i].Later() {
			s.moved.later++
			s.moved.reasons[string(changes[i].Cause.Kind)]++
		} else {
			s.moved.earlier++
		}
	}
}

// tryBeside starts a job if it fits and is in the way of no reservation.
func (s *system) tryBeside(j *job) (started bool, err error) {
	if s.cluster.Root().Room(j.request) < j.members {
		return false, nil
	}
	var plan *placement.Plan
	s.cluster.Try(func() bool {
		for _, shadow := range backfill.Shadows(s.cluster, s.reservations, s.now, j.bound()) {
			if err = s.cluster.Place(shadow); err != nil {
				return false
			}
		}
		plan = s.plan(j)
		return false
	})
	if plan == nil || err != nil {
		return false, err
	}
	return true, s.start(j, plan)
}
