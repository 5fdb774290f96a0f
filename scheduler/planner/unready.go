// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

const (
	// takeOverPatience is after how long it is reported what taking over waits for, and takeOverReports how often
	// it is logged then.
	takeOverPatience = 5 * time.Second
	takeOverReports  = time.Minute
	// maxNamed is how many Pods are named there.
	maxNamed = 3
)

// takeover is what taking over waits for. Its zero value waits for nothing.
type takeover struct {
	mu sync.Mutex
	// since is when this process began to take over; zero if it does not.
	since time.Time
	// what is awaited, of the Pods if there are any, which are named.
	what string
	pods map[types.UID]string
}

func (t *takeover) begin(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = now
}

func (t *takeover) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since, t.what, t.pods = time.Time{}, "", nil
}

// await records what is awaited now, of which Pods.
func (t *takeover) await(what string, pods []*corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.what, t.pods = what, make(map[types.UID]string, len(pods))
	for _, pod := range pods {
		t.pods[pod.UID] = klog.KObj(pod).String()
	}
}

// settle records that a Pod is no longer awaited.
func (t *takeover) settle(pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, pod.UID)
}

// text says what is awaited, and has been for too long; empty if nothing is.
func (t *takeover) text(now time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() || now.Sub(t.since) < takeOverPatience {
		return ""
	}
	text := "no Pods with GPUs are scheduled yet: gpu-scheduler has become the leader and waits for " + t.what
	names := slices.Sorted(maps.Values(t.pods))
	if len(names) == 0 {
		return text
	}
	text += " " + strings.Join(names[:min(len(names), maxNamed)], ", ")
	if len(names) > maxNamed {
		text += fmt.Sprintf(" and %d more", len(names)-maxNamed)
	}
	return text
}

// Unready returns why this process, although it leads, does not schedule Pods with GPUs; empty if it does, or if it
// does not lead.
func (p *Planner) Unready() string { return p.takeover.text(p.clock.Now()) }

// reportTakeover logs what taking over waits for, until ctx ends.
func (p *Planner) reportTakeover(ctx context.Context) {
	for pause := takeOverPatience; ; pause = takeOverReports {
		select {
		case <-ctx.Done():
			return
		case <-p.clock.After(pause):
			if why := p.Unready(); why != "" {
				p.logger.Info("Taking over takes long", "why", why)
			}
		}
	}
}
