// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"encoding/json"
	"fmt"
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

// FieldManager owns the labels and the annotation in server-side apply. A label
// that is no longer applied disappears.
const FieldManager = "nodeagent"

const (
	writeTimeout = 10 * time.Second
	// patience is how long a node keeps the labels of an earlier life of the
	// agent while there is no driver.
	patience = 5 * time.Minute
	// jitter is how much longer than the interval a write may wait, as a share
	// of it: agents that start together must not write together for ever.
	jitter = 0.2
	// firstRetry and lastRetry bound the time before a failed write is repeated,
	// newsRetry is the most for news of the GPUs and their health.
	firstRetry = time.Second
	lastRetry  = 2 * time.Minute
	newsRetry  = 5 * time.Second
)

// Patcher writes Nodes.
type Patcher interface {
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*metav1.PartialObjectMetadata, error)
}

// GPUs is where the content comes from: the monitor.
type GPUs interface {
	Snapshot() *gpu.Snapshot
	Changed() <-chan struct{}
}

// Config says how a Publisher works.
type Config struct {
	Node    string
	GPUs    GPUs
	Nodes   *View
	Patcher Patcher
	Clock   clock.Clock
	Labels  labels.Options
	// ProbeURL is where the agent's /probe is; empty if nobody needs to be told.
	ProbeURL string
	// Interval is the least time between two writes that are not urgent.
	Interval time.Duration
}

// Publisher keeps one Node's labels and annotation.
type Publisher struct {
	config     Config
	started    time.Time
	last       written
	interval   time.Duration
	retries    retries
	statistics Statistics
}

// New returns a Publisher that has written nothing yet.
func New(config Config) *Publisher {
	p := &Publisher{config: config, started: config.Clock.Now()}
	p.plan()
	return p
}

// plan draws the time until the next write that is not urgent.
func (p *Publisher) plan() {
	p.interval = wait.Jitter(p.config.Interval, jitter)
	p.retries = newRetries()
}

// Run publishes until ctx ends.
func (p *Publisher) Run(ctx context.Context) {
	for {
		gpus, node := p.config.GPUs.Changed(), p.config.Nodes.Changed()
		again := p.Publish(ctx)
		timer := p.config.Clock.NewTimer(again)
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

// idle is when to look again if nothing happens.
const idle = time.Hour

// Publish writes if there is something to write and it is time, and returns when
// to try again if nothing changes until then.
func (p *Publisher) Publish(ctx context.Context) time.Duration {
	node := p.config.Nodes.Node()
	if node == nil {
		return idle // nothing to write to; its creation is a change
	}
	have := contentOf(node)
	want, ready := p.want(have)
	if !ready {
		return patience
	}
	if want.equal(&have) || p.last.settled(node.UID, &want, &have) {
		return idle
	}
	now, news := p.config.Clock.Now(), p.last.news(node.UID, &want, &have)
	if delay := max(p.last.wait(now, node.UID, news, p.interval), p.retries.wait(now, news)); delay > 0 {
		return delay
	}
	if err := p.write(ctx, node.UID, want); err != nil {
		p.statistics.failed()
		now = p.config.Clock.Now()
		p.retries.fail(now)
		delay := p.retries.wait(now, news)
		klog.FromContext(ctx).Error(err, "Labelling the node failed; this is tried again", "after", delay)
		return delay
	}
	return idle
}

// want returns what the Node shall have. It is not known before the first poll,
// nor while a driver that may still come is missing.
func (p *Publisher) want(have Content) (content Content, known bool) {
	snapshot := p.config.GPUs.Snapshot()
	if len(snapshot.Devices) == 0 && snapshot.Taken.IsZero() {
		if snapshot.Problem == nil || p.config.Clock.Since(p.started) < patience {
			return Content{}, false
		}
	}
	content.ProbeURL = p.config.ProbeURL
	content.Labels = labels.Labels(snapshot, have.Labels, p.config.Labels)
	if len(snapshot.Devices) > 0 {
		list := labels.Inventory(snapshot, p.config.Labels)
		agree(&list, have.Inventory)
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
	p.statistics.wrote()
	p.last = written{uid: uid, at: p.config.Clock.Now(), content: want, result: result}
	p.plan()
	klog.FromContext(ctx).V(2).Info("Labelled the node", "labels", want.Labels)
	return nil
}

// apply writes the content with one request and returns what the Node has then:
// labels of the same names that somebody else has put there stay. The UID keeps
// it from creating a Node, or from writing to another one of the same name.
func (p *Publisher) apply(ctx context.Context, uid types.UID, content Content) (result Content, err error) {
	patch, err := patchFor(p.config.Node, uid, content)
	if err != nil {
		return Content{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	node, err := p.config.Patcher.Patch(ctx, p.config.Node, types.ApplyPatchType, patch,
		metav1.PatchOptions{FieldManager: FieldManager, Force: new(true)})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return Content{}, fmt.Errorf("the Node was replaced: %w", err)
	}
	if err != nil {
		return Content{}, err
	}
	p.config.Nodes.See(&node.ObjectMeta)
	return contentOf(&node.ObjectMeta), nil
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

// CleanUp takes everything away that was published.
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
