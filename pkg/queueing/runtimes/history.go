// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"math"
	"strconv"
	"time"
)

// Task is what is known of a job before it runs.
type Task struct {
	// Namespace or virtual cluster.
	Namespace string `json:"namespace,omitempty"`
	// Name is the job's name; jobs that differ in digits and hashes only are alike. See Stem.
	Name string  `json:"name,omitempty"`
	GPUs float64 `json:"gpus,omitempty"`
	// Limit was declared and is enforced; 0 for none. In JSON it is in nanoseconds.
	Limit time.Duration `json:"limit,omitempty"`
}

const (
	// enough is how many jobs a group needs to be asked, and enoughOfOthers how many one needs that has those of all
	// namespaces: a few short jobs of one team say nothing about the first one of another team.
	enough, enoughOfOthers = 8, 64
	// mostGroups bounds the groups that are kept. Those that were asked or added to the
	// longest time ago are forgotten.
	mostGroups = 8192
	// smallestPart is the smallest part of a limit that is told apart.
	smallestPart = 1.0 / 4096
)

// History is how long jobs ran. It is not safe for concurrent use. Its memory is bounded:
// at most 8,192 groups of at most 400 bytes.
type History struct {
	groups map[string]*groupOf
	// clock counts additions and questions, to find out what was not used for long.
	clock uint64
}

type groupOf struct {
	histogram Histogram
	used      uint64
}

// NewHistory returns an empty History.
func NewHistory() *History { return &History{groups: map[string]*groupOf{}} }

// Add counts a job that has run to its end, or to its limit.
func (h *History) Add(task Task, ran time.Duration) {
	if ran <= 0 {
		return
	}
	for level := range levels {
		h.group(task.duration(level), 1).add(ran.Seconds())
	}
	if task.Limit > 0 {
		for level := range levels {
			h.group(task.part(level), smallestPart).add(min(ran.Seconds()/task.Limit.Seconds(), 1))
		}
	}
	h.forget()
}

// Estimate estimates how long a job runs. Without a limit it is the distribution of the most
// specific group that has had enough jobs. With a limit, it is the part of the limit that
// others used who declared a limit; as many declare the same large limit for everything,
// those in the same namespace with the same limit are asked first.
func (h *History) Estimate(task Task) Estimate {
	if task.Limit > 0 {
		for level := range levels {
			if group := h.known(task.part(level), level); group != nil {
				return Estimate{numbers: group, scale: task.Limit.Seconds(), limit: task.Limit, level: level}
			}
		}
	}
	for level := range levels {
		if group := h.known(task.duration(level), level); group != nil {
			return Estimate{numbers: group, scale: 1, limit: task.Limit, level: level}
		}
	}
	return Estimate{limit: task.Limit}
}

// Jobs returns the weight of all jobs that count.
func (h *History) Jobs() float64 {
	if group := h.groups[Task{}.duration(levels-1)]; group != nil {
		return group.histogram.Total
	}
	return 0
}

// levels is how many groups a task is in, of durations and of parts of limits, from the most specific one to
// that of all. On those up to levelOfSize the jobs are alike: of one namespace, with the same name, size or limit.
const levels, levelOfSize = 4, 1

// duration returns the key of the group with durations on a level.
func (t Task) duration(level int) string {
	switch level {
	case 0:
		return "name\x00" + t.Namespace + "\x00" + Stem(t.Name) + "\x00" + strconv.Itoa(sizeOf(t.GPUs))
	case 1:
		return "size\x00" + t.Namespace + "\x00" + strconv.Itoa(sizeOf(t.GPUs))
	case 2:
		return "all sizes\x00" + t.Namespace
	default:
		return "all"
	}
}

// part returns the key of the group with parts of limits on a level.
func (t Task) part(level int) string {
	limit := strconv.FormatInt(int64(t.Limit), 10)
	switch level {
	case 0:
		return "limit of name\x00" + t.Namespace + "\x00" + Stem(t.Name) + "\x00" + limit
	case 1:
		return "limit\x00" + t.Namespace + "\x00" + limit
	case 2:
		return "limit\x00" + limit
	default:
		return "limits"
	}
}

// sizeOf returns the size class of a number of GPUs: up to 1, 2, 4, 8, …
func sizeOf(gpus float64) int {
	if gpus <= 1 {
		return 0
	}
	return int(math.Ceil(math.Log2(gpus)))
}

// group returns the histogram of a group, a new one if need be.
func (h *History) group(key string, smallest float64) *Histogram {
	h.clock++
	group := h.groups[key]
	if group == nil {
		group = &groupOf{histogram: Histogram{Smallest: smallest}}
		h.groups[key] = group
	}
	group.used = h.clock
	return &group.histogram
}

// known returns the histogram of a group on a level that has had enough jobs, else nil.
func (h *History) known(key string, level int) *Histogram {
	group, least := h.groups[key], float64(enough)
	if level == levels-1 {
		least = enoughOfOthers
	}
	if group == nil || group.histogram.Total < least {
		return nil
	}
	h.clock++
	group.used = h.clock
	return &group.histogram
}

// forget drops the half of the groups that was not used for the longest time, when there
// are too many.
func (h *History) forget() {
	if len(h.groups) <= mostGroups {
		return
	}
	middle := h.medianUse()
	for key, group := range h.groups {
		if group.used <= middle {
			delete(h.groups, key)
		}
	}
}
