// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	taskscheme "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/scheme"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/leadership"
)

// clients are the connections to the API server.
type clients struct {
	kube  kubernetes.Interface
	tasks clientset.Interface
	// lease has a rate limit of its own: a busy leader must still renew its lease in time.
	lease kubernetes.Interface
	// dynamic and discovery are for APIs that the cluster may lack; nil in tests without them.
	dynamic   dynamic.Interface
	discovery informer.Discoverer
}

// newClients returns clients that write only while the guard's process leads.
func newClients(unfenced *rest.Config, guard *leadership.Guard) (clients, error) {
	config := rest.CopyConfig(unfenced)
	config.Wrap(guard.Fence)
	tasks, err := clientset.NewForConfig(config)
	if err != nil {
		return clients{}, err
	}
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf // built-in types only
	kube, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return clients{}, err
	}
	election := rest.AddUserAgent(rest.CopyConfig(unfenced), "leader-election")
	election.ContentType = runtime.ContentTypeProtobuf
	lease, err := kubernetes.NewForConfig(election)
	if err != nil {
		return clients{}, err
	}
	others, err := dynamic.NewForConfig(config)
	return clients{kube: kube, tasks: tasks, lease: lease, dynamic: others, discovery: kube.Discovery()}, err
}

// newRecorder returns a recorder that keeps working while the controller shuts down, since
// the last tasks are still being handled then.
func newRecorder(ctx context.Context, clients clients) (record.EventRecorder, error) {
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), taskscheme.AddToScheme(types)); err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	broadcaster.StartStructuredLogging(4)
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(types, corev1.EventSource{Component: "gpu-controller"}), nil
}
