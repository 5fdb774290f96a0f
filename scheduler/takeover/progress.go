// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

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
	// patience is after how long it is reported what taking over waits for, and reportPause how often
	// it is logged then.
	patience    = 5 * time.Second
	reportPause = time.Minute
	// maxNamed is how many Pods are named there.
	maxNamed = 3
)

// progress is what taking over waits for. Its zero value waits for nothing.
type progress struct {
	mu sync.Mutex
	// since is when this process began to take over; zero if it does not.
	since time.Time
	// what is awaited, of the Pods if there are any, which are named.
	what string
	pods map[types.UID]string
}

func (p *progress) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = now
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.what, p.pods = time.Time{}, "", nil
}

// await records what is awaited now, of which Pods.
func (p *progress) await(what string, pods []*corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.pods = what, make(map[types.UID]string, len(pods))
	for _, pod := range pods {
		p.pods[pod.UID] = klog.KObj(pod).String()
	}
}

// settle records that a Pod is no longer awaited.
func (p *progress) settle(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pods, pod.UID)
}

// text says what is awaited, and has been for too long; empty if nothing is.
func (p *progress) text(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() || now.Sub(p.since) < patience {
		return ""
	}
	text := "no Pods with GPUs are scheduled yet: gpu-scheduler has become the leader and waits for " + p.what
	names := slices.Sorted(maps.Values(p.pods))
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
func (t *Term) Unready() string { return t.progress.text(t.sources.Clock.Now()) }

// report logs what taking over waits for, until ctx ends.
func (t *Term) report(ctx context.Context) {
	for pause := patience; ; pause = reportPause {
		select {
		case <-ctx.Done():
			return
		case <-t.sources.Clock.After(pause):
			if why := t.Unready(); why != "" {
				t.sources.Logger.Info("Taking over takes long", "why", why)
			}
		}
	}
}
