// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster reads from the API server what the commands need.
package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
)

// Clients are the clients of a cluster.
type Clients struct {
	Kube  kubernetes.Interface
	Tasks versioned.Interface
	// Config is how the cluster is reached, for what no client does.
	Config *rest.Config
	// Namespace is the namespace selected by the flags or the kubeconfig.
	Namespace string
}

// A command lists several resources at once; client-go's default limits would slow it
// down needlessly.
const (
	queriesPerSecond = 100
	burst            = 200
)

// Connect connects as kubectl does: with flags, KUBECONFIG or ~/.kube/config.
func Connect(flags *genericclioptions.ConfigFlags) (*Clients, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("no connection to a cluster: %w (set --kubeconfig or KUBECONFIG)", err)
	}
	if err := noCluster(flags, config); err != nil {
		return nil, err
	}
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the namespace of the kubeconfig: %w", err)
	}
	return newClients(config, namespace)
}

// WithToken connects to the same API server as a configuration, with a token of somebody else and no other credentials.
func WithToken(config *rest.Config, token string) (*Clients, error) {
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token
	return newClients(config, metav1.NamespaceDefault)
}

// InCluster connects as a Pod does. Responses are not compressed, for the reason that restconfig.Load gives.
func InCluster() (*Clients, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("can't connect to the cluster that this program runs in: %w", err)
	}
	config.DisableCompression = true
	return newClients(config, metav1.NamespaceDefault)
}

func newClients(config *rest.Config, namespace string) (*Clients, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = queriesPerSecond, burst
	kube, err := kubernetes.NewForConfig(inProtobuf(config))
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	tasks, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Clients{Kube: kube, Tasks: tasks, Config: config, Namespace: namespace}, nil
}

// inProtobuf asks for Kubernetes' own objects in protobuf, which takes the API server a
// fraction of the time of JSON. Custom resources have only JSON.
func inProtobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	return config
}

// Events returns the Events of an object, in no order.
func Events(ctx context.Context, clients *Clients, namespace string, uid types.UID) ([]corev1.Event, error) {
	selector := fields.Set{"involvedObject.uid": string(uid)}.AsSelector().String()
	list, err := clients.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(event corev1.Event) bool { return event.InvolvedObject.UID != uid }), nil
}

// PodWarnings returns the Warning Events about the Pods of a namespace, in no order.
func PodWarnings(ctx context.Context, clients *Clients, namespace string) ([]corev1.Event, error) {
	return podEvents(ctx, clients, namespace, fields.Set{"type": corev1.EventTypeWarning})
}

// PodEvents returns the Events about Pods with these names, and about those that had the names before, in no order.
func PodEvents(ctx context.Context, clients *Clients, namespace string, names []string) ([]corev1.Event, error) {
	events, err := podEvents(ctx, clients, namespace, fields.Set{})
	return slices.DeleteFunc(events, func(event corev1.Event) bool {
		return event.InvolvedObject.Kind != "Pod" || !slices.Contains(names, event.InvolvedObject.Name)
	}), err
}

func podEvents(ctx context.Context, clients *Clients, namespace string, selected fields.Set) ([]corev1.Event, error) {
	selected["involvedObject.kind"] = "Pod"
	list, err := clients.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selected.AsSelector().String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Executor returns what runs a command in a container, over WebSocket, or over SPDY through
// API servers and proxies that don't take WebSocket.
func (c *Clients) Executor(pod *corev1.Pod, options *corev1.PodExecOptions) (remotecommand.Executor, error) {
	core, err := typedcorev1.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	address := core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(options, scheme.ParameterCodec).URL()
	spdy, err := remotecommand.NewSPDYExecutor(c.Config, "POST", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	webSocket, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", address.String())
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return remotecommand.NewFallbackExecutor(webSocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}
