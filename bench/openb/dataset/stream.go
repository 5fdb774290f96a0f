// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
)

// Job is a Pod that arrives, waits, runs and ends. Times are in seconds.
type Job struct {
	Name     string
	Pod      *Pod
	Arrived  float64
	Duration float64
}

// Stream generates jobs: random Pods of a trace, at random times, at a rate at which a
// given fraction of the GPUs is requested on average.
type Stream struct {
	random    *rand.Rand
	pods      []Pod
	durations []float64 // of each Pod, or of those of another trace
	paired    bool      // durations are those of the Pods
	// longer has the cumulative sums of the durations: the longer a Pod runs, the
	// likelier it runs at a given moment.
	longer []float64
	// interval is the mean time between two arrivals.
	interval float64
	made     int
}

var errNoDurations = errors.New("no Pod has a creation_time and a later deletion_time")

// NewStream returns a stream with a load, relative to the capacity, which is in percent
// of a GPU. Pods of a trace without times get random durations of another trace.
func NewStream(pods, timed []Pod, capacity int, load float64, seed int64) (*Stream, error) {
	s := &Stream{random: rand.New(rand.NewPCG(uint64(seed), 2)), pods: pods} //nolint:gosec // a replay repeats
	s.durations, s.paired = durationsOf(pods)
	if !s.paired {
		var some bool
		if s.durations, some = durationsOf(timed); !some {
			return nil, errNoDurations
		}
	}
	sum := 0.0
	for _, duration := range s.durations {
		sum += duration
		s.longer = append(s.longer, sum)
	}
	s.interval = s.work() / (load * float64(capacity))
	return s, nil
}

// work returns the average work of a job, in seconds times percent of a GPU.
func (s *Stream) work() float64 {
	paired, duration, percent := 0.0, 0.0, 0.0
	for i := range s.pods {
		percent += float64(s.pods[i].Shape.Percent()) / float64(len(s.pods))
	}
	for i := range s.durations {
		duration += s.durations[i] / float64(len(s.durations))
		if s.paired {
			paired += s.durations[i] * float64(s.pods[i].Shape.Percent()) / float64(len(s.pods))
		}
	}
	if s.paired {
		return paired
	}
	return duration * percent
}

// durationsOf returns how long Pods ran; some is false if none did.
func durationsOf(pods []Pod) (list []float64, some bool) {
	list = make([]float64, len(pods))
	for i := range pods {
		list[i] = float64(max(0, pods[i].Deleted-pods[i].Created))
		some = some || list[i] > 0
	}
	return list, some
}

// Next returns the next job.
func (s *Stream) Next(now float64) *Job {
	i := s.random.IntN(len(s.durations))
	return s.job(i, now+s.random.ExpFloat64()*s.interval, s.durations[i])
}

// Running returns a job that runs already, as observed at a random moment.
func (s *Stream) Running() *Job {
	at := s.random.Float64() * s.longer[len(s.longer)-1]
	i := sort.SearchFloat64s(s.longer, at)
	return s.job(i, 0, s.random.Float64()*s.durations[i])
}

// job returns a job with the duration at an index.
func (s *Stream) job(i int, arrived, duration float64) *Job {
	if !s.paired {
		i = s.random.IntN(len(s.pods))
	}
	s.made++
	return &Job{Name: fmt.Sprintf("%d/%s", s.made, s.pods[i].Name), Pod: &s.pods[i], Arrived: arrived, Duration: duration}
}
