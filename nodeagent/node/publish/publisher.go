// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// FieldManager owns the labels and the annotation in server-side apply, which removes those
// that are no longer applied.
const FieldManager = "nodeagent"

const (
	writeTimeout = 10 * time.Second
	// driverGracePeriod is how long a node keeps the labels of a previous run of the agent
	// while there is no driver.
	driverGracePeriod = 5 * time.Minute
	// jitter is how much longer than the interval a write may wait, as a fraction of it:
	// agents that start together must not keep writing together.
	jitter = 0.2
	// firstRetry and lastRetry bound the backoff of failed writes, urgentRetry that of urgent
	// ones.
	firstRetry  = time.Second
	lastRetry   = 2 * time.Minute
	urgentRetry = 5 * time.Second
)

// Patcher writes Nodes.
type Patcher interface {
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*metav1.PartialObjectMetadata, error)
}

// GPUs provides the content; it is the monitor.
type GPUs interface {
	Snapshot() *gpu.Snapshot
	Changed() <-chan struct{}
}

// Config configures a Publisher.
type Config struct {
	Node    string
	GPUs    GPUs
	Nodes   *View
	Patcher Patcher
	Clock   clock.Clock
	Labels  labels.Options
	// ProbeURL is the URL of the agent's /probe; empty for no annotation.
	ProbeURL string
	// Interval is the minimum time between two writes that are not urgent.
	Interval time.Duration
}

// Publisher keeps the labels and the annotations of one Node up to date.
type Publisher struct {
	config   Config
	started  time.Time
	last     written
	interval time.Duration
	retries  retries
	// worked and failed count the writes.
	worked, failed atomic.Uint64
}

// Writes returns how many writes succeeded and how many failed.
func (p *Publisher) Writes() (worked, failed uint64) { return p.worked.Load(), p.failed.Load() }

// New returns a Publisher that has not written yet.
func New(config Config) *Publisher {
	p := &Publisher{config: config, started: config.Clock.Now()}
	p.resetTimers()
	return p
}

// resetTimers draws the interval until the next write that is not urgent, and resets the
// backoff.
func (p *Publisher) resetTimers() {
	p.interval = wait.Jitter(p.config.Interval, jitter)
	p.retries = newRetries()
}

// Run publishes until ctx ends.
func (p *Publisher) Run(ctx context.Context) { p.config.follow(ctx, p.Publish) }

// follow calls write now, whenever GPUs or the Node have changed, and after the time that it returned, until ctx ends.
func (c *Config) follow(ctx context.Context, write func(context.Context) time.Duration) {
	for {
		gpus, node := c.GPUs.Changed(), c.Nodes.Changed()
		timer := c.Clock.NewTimer(write(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-gpus:
		case <-node:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// idle is how long to wait if nothing changes.
const idle = time.Hour

// Publish writes if a write is due, and returns when to try again unless something changes
// earlier.
func (p *Publisher) Publish(ctx context.Context) time.Duration {
	node := p.config.Nodes.Node()
	if node == nil {
		return idle // its creation will be a change
	}
	have := contentOf(node)
	want, ready := p.want(have)
	if !ready {
		return driverGracePeriod
	}
	if want.equal(&have) || p.last.isFutile(node.UID, &want, &have) {
		return idle
	}
	now, urgent := p.config.Clock.Now(), p.last.isUrgent(node.UID, &want, &have)
	if delay := max(p.last.wait(now, node.UID, urgent, p.interval), p.retries.wait(now, urgent)); delay > 0 {
		return delay
	}
	if err := p.write(ctx, node.UID, want); err != nil {
		p.failed.Add(1)
		now = p.config.Clock.Now()
		p.retries.fail(now)
		delay := p.retries.wait(now, urgent)
		klog.FromContext(ctx).Error(err, "Labelling the node failed; will retry", "after", delay)
		return delay
	}
	return idle
}

// want returns the content that the Node should have. It is not known before the first poll,
// nor during the grace period for a missing driver, nor while somebody else works on it.
func (p *Publisher) want(have Content) (content Content, known bool) {
	snapshot := p.config.GPUs.Snapshot()
	if len(snapshot.Devices) == 0 && snapshot.Taken.IsZero() {
		if snapshot.Problem == nil || errors.Is(snapshot.Problem, gpu.ErrPaused) || p.config.Clock.Since(p.started) < driverGracePeriod {
			return Content{}, false
		}
	}
	content.ProbeURL = p.config.ProbeURL
	content.Labels = labels.Labels(snapshot, have.Labels, p.config.Labels)
	if len(snapshot.Devices) > 0 {
		list := labels.Inventory(snapshot, p.config.Labels)
		adopt(&list, have.Inventory)
		text, err := list.String()
		if err != nil {
			return Content{}, false // can't happen: it has only strings and numbers
		}
		content.Inventory = text
	}
	return content, true
}

func (p *Publisher) write(ctx context.Context, uid types.UID, want Content) error {
	result, err := p.apply(ctx, uid, want)
	if err != nil {
		return err
	}
	p.worked.Add(1)
	p.last = written{uid: uid, at: p.config.Clock.Now(), content: want, result: result}
	p.resetTimers()
	klog.FromContext(ctx).V(2).Info("Labelled the node", "labels", want.Labels)
	return nil
}

// apply writes the content with one request and returns the Node's content afterwards: labels
// of the same names that another manager owns stay. The UID prevents it from creating a
// Node, or writing to another one of the same name.
func (p *Publisher) apply(ctx context.Context, uid types.UID, content Content) (result Content, err error) {
	patch, err := patchFor(p.config.Node, uid, content)
	if err != nil {
		return Content{}, err
	}
	node, err := p.config.apply(ctx, FieldManager, patch)
	if err != nil {
		return Content{}, err
	}
	return contentOf(node), nil
}

// apply applies a patch of the Node, and returns the Node afterwards.
func (c *Config) apply(ctx context.Context, manager string, patch []byte, subresources ...string) (*metav1.ObjectMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	node, err := c.Patcher.Patch(ctx, c.Node, types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: manager, Force: new(true)}, subresources...)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the Node was replaced: %w", err)
	}
	if err != nil {
		return nil, err
	}
	c.Nodes.See(&node.ObjectMeta)
	return &node.ObjectMeta, nil
}

func patchFor(name string, uid types.UID, content Content) ([]byte, error) {
	meta := metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Labels: content.Labels},
	}
	meta.Annotations = map[string]string{}
	for name, value := range map[string]string{inventory.Annotation: content.Inventory, endpoints.AnnotationProbeURL: content.ProbeURL} {
		if value != "" {
			meta.Annotations[name] = value
		}
	}
	return json.Marshal(meta)
}

// CleanUp removes everything that was published.
func (p *Publisher) CleanUp(ctx context.Context) error {
	node := p.config.Nodes.Node()
	if node == nil {
		return nil
	}
	nothing, have := Content{}, contentOf(node)
	if nothing.equal(&have) {
		return nil
	}
	_, err := p.apply(ctx, node.UID, nothing)
	return err
}
