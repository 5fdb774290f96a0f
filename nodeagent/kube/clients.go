// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube is the agent's access to the API server. It uses neither the
// generated clientset nor its informers: they link the types of every API group,
// which doubles the memory of an agent that runs on every node. What the agent
// reads and patches of Nodes and Pods is their metadata; only Events are whole
// objects.
package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// The resources whose metadata the agent handles.
var (
	Nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	Pods  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// Metadata returns the client for metadata.
func Metadata(config *rest.Config) (metadata.Interface, error) {
	return metadata.NewForConfig(metadata.ConfigFor(config))
}

// core returns a client for whole objects.
func core(config *rest.Config, scheme *runtime.Scheme) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}
