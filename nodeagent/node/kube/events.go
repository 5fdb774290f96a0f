// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// Events writes the Events of a component that runs on nodes.
type Events struct {
	component   string
	scheme      *runtime.Scheme
	broadcaster record.EventBroadcaster
}

// NewEvents returns Events that are written to the API server until ctx ends, each with the
// configuration for its node.
func NewEvents(ctx context.Context, component string, configFor func(node string) *rest.Config) *Events {
	e := &Events{component: component, scheme: newScheme(), broadcaster: record.NewBroadcaster(record.WithContext(ctx))}
	e.broadcaster.StartRecordingToSink(&sink{ctx: ctx, newClient: func(node string) (rest.Interface, error) {
		return core(configFor(node), e.scheme)
	}})
	return e
}

// Recorder returns the recorder of a node. Its Events name the node as their source: an
// admission policy requires that.
func (e *Events) Recorder(node string) record.EventRecorder {
	return e.broadcaster.NewRecorder(e.scheme, corev1.EventSource{Component: e.component, Host: node})
}

// sink writes Events.
type sink struct {
	ctx       context.Context //nolint:containedctx // the interface passes none
	newClient func(node string) (rest.Interface, error)
	// clients are by node. The broadcaster writes one Event after the other.
	clients map[string]rest.Interface
}

var _ record.EventSink = (*sink)(nil)

const eventsResource = "events"

// Create implements record.EventSink.
func (s *sink) Create(event *corev1.Event) (*corev1.Event, error) {
	return s.write(event, func(client rest.Interface) *rest.Request { return client.Post().Body(event) })
}

// Update implements record.EventSink.
func (s *sink) Update(event *corev1.Event) (*corev1.Event, error) {
	return s.write(event, func(client rest.Interface) *rest.Request { return client.Put().Name(event.Name).Body(event) })
}

// Patch implements record.EventSink.
func (s *sink) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	return s.write(event, func(client rest.Interface) *rest.Request {
		return client.Patch(types.StrategicMergePatchType).Name(event.Name).Body(patch)
	})
}

// write makes a request with the client of the Event's node.
func (s *sink) write(event *corev1.Event, request func(rest.Interface) *rest.Request) (*corev1.Event, error) {
	client, err := s.client(event.Source.Host)
	if err != nil {
		return nil, err
	}
	result := &corev1.Event{}
	err = request(client).Namespace(event.Namespace).Resource(eventsResource).Do(s.ctx).Into(result)
	return result, err
}

func (s *sink) client(node string) (rest.Interface, error) {
	if client := s.clients[node]; client != nil {
		return client, nil
	}
	client, err := s.newClient(node)
	if err != nil {
		return nil, err
	}
	if s.clients == nil {
		s.clients = map[string]rest.Interface{}
	}
	s.clients[node] = client
	return client, nil
}
