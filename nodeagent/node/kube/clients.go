// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube is the agent's client of the API server. It uses neither the generated
// clientset nor its informers: they link the types of every API group, which doubles the
// memory of an agent that runs on every node. The agent reads only the metadata of Nodes;
// only Pods and Events are whole objects.
package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// The resources that the agent accesses through the metadata client.
var (
	Nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	Pods  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// Metadata returns a client for metadata.
func Metadata(config *rest.Config) (metadata.Interface, error) {
	return metadata.NewForConfig(metadata.ConfigFor(config))
}

// nodeNameExtra is the user info's extra key with the node name of a token that is bound to a
// Node, or to a Pod on a Node.
const nodeNameExtra = "authentication.kubernetes.io/node-name"

// ConfigFor returns the configuration of the clients that write for a node. They impersonate the user,
// if one is set, as if with a token that is bound to the Node.
func ConfigFor(config *rest.Config, user, node string) *rest.Config {
	if user == "" {
		return config
	}
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Extra: map[string][]string{nodeNameExtra: {node}}}
	return config
}

// newScheme returns a scheme with the whole objects that the agent handles, and with what the
// API server may return instead.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Event{}, &corev1.EventList{}, &corev1.Node{}, &corev1.NodeList{}, &corev1.Pod{}, &corev1.PodList{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	return scheme
}

// core returns a client for whole objects.
func core(config *rest.Config, scheme *runtime.Scheme) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}
