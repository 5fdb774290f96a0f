// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// NewRecorder returns a recorder that writes a component's Events to the API server until ctx
// ends.
func NewRecorder(ctx context.Context, config *rest.Config, component string) (record.EventRecorder, error) {
	scheme := newScheme()
	client, err := core(config, scheme)
	if err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&sink{ctx: ctx, client: client})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component}), nil
}

// sink writes Events.
type sink struct {
	ctx    context.Context //nolint:containedctx // the interface passes none
	client rest.Interface
}

var _ record.EventSink = (*sink)(nil)

const eventsResource = "events"

// Create implements record.EventSink.
func (s *sink) Create(event *corev1.Event) (*corev1.Event, error) {
	result := &corev1.Event{}
	err := s.client.Post().Namespace(event.Namespace).Resource(eventsResource).Body(event).Do(s.ctx).Into(result)
	return result, err
}

// Update implements record.EventSink.
func (s *sink) Update(event *corev1.Event) (*corev1.Event, error) {
	result := &corev1.Event{}
	err := s.client.Put().Namespace(event.Namespace).Resource(eventsResource).Name(event.Name).Body(event).Do(s.ctx).Into(result)
	return result, err
}

// Patch implements record.EventSink.
func (s *sink) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	result := &corev1.Event{}
	err := s.client.Patch(types.StrategicMergePatchType).Namespace(event.Namespace).Resource(eventsResource).Name(event.Name).Body(patch).Do(s.ctx).Into(result)
	return result, err
}
