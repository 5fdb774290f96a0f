// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/bench/measure"
	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
	"falldio.github.io/gpu-controller/nodeagent/node/kube"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	"falldio.github.io/gpu-controller/nodeagent/node/publish"
)

// labelling compares the agent's server-side apply, after the health of a GPU has
// changed, with the common alternative: read the Node, change it, and write all of it
// back.
func labelling(ctx context.Context, config *rest.Config, node string, rounds int) (measure.Contest, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return measure.Contest{}, err
	}
	ours, err := newLabeller(ctx, config, client.CoreV1().Nodes(), node)
	if err != nil {
		return measure.Contest{}, err
	}
	return measure.Contest{
		Name: "labelling after a change", Rounds: rounds, Ours: func() error { return ours.label(ctx) },
		Than: "read and update of the Node", Baseline: readAndUpdate(ctx, client.CoreV1().Nodes(), node),
	}, nil
}

// labeller changes the health of a GPU and has the agent's code publish it.
type labeller struct {
	monitor   *monitor.Monitor
	publisher *publish.Publisher
	broken    bool
}

func newLabeller(ctx context.Context, config *rest.Config, nodes typedcorev1.NodeInterface, node string) (*labeller, error) {
	client, err := kube.Metadata(config)
	if err != nil {
		return nil, err
	}
	now, err := nodes.Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	view := publish.NewView()
	view.See(&now.ObjectMeta)
	wall := clock.RealClock{}
	l := &labeller{monitor: monitor.New(monitor.Config{
		Source: simulation.New(simulation.Default(), node, wall), Clock: wall, Policy: health.DefaultPolicy(), Deadline: time.Second,
	})}
	l.monitor.Poll(ctx)
	l.publisher = publish.New(publish.Config{
		Node: node, GPUs: l, Nodes: view, Patcher: client.Resource(kube.Nodes), Clock: wall, Labels: labels.Options{},
	})
	return l, nil
}

// Snapshot implements publish.GPUs: it returns the monitor's, with or without a fault.
func (l *labeller) Snapshot() *gpu.Snapshot {
	snapshot := *l.monitor.Snapshot()
	if l.broken {
		snapshot.Devices = append([]gpu.Device{}, snapshot.Devices...)
		snapshot.Devices[0].Fault = &gpu.Fault{Reason: health.ReasonLost}
	}
	return &snapshot
}

// Changed implements publish.GPUs.
func (l *labeller) Changed() <-chan struct{} { return l.monitor.Changed() }

func (l *labeller) label(ctx context.Context) error {
	before, _ := l.publisher.Writes()
	l.broken = !l.broken
	l.publisher.Publish(ctx)
	if after, failed := l.publisher.Writes(); after != before+1 || failed > 0 {
		return fmt.Errorf("%d writes for one change, %d failed", after-before, failed)
	}
	return nil
}

// readAndUpdate returns a function that changes one label by reading and updating the
// Node.
func readAndUpdate(ctx context.Context, nodes typedcorev1.NodeInterface, name string) func() error {
	round := 0
	return func() error {
		round++
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		setLabel(node, round)
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	}
}

func setLabel(node *corev1.Node, round int) {
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels["bench.falldio.com/round"] = fmt.Sprint(round)
}
