// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prober asks the node agents how fast their nodes reach the targets that
// Pods want.
package prober

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
)

// maxURLBytes is more than the URL of any agent needs.
const maxURLBytes = 1024

// agentURL returns the URL at which the agent of a node serves probes: that of the Node's
// annotation, or a port of its internal address.
func agentURL(node *corev1.Node, port int) (*url.URL, error) {
	if text := node.Annotations[endpoints.AnnotationProbeURL]; text != "" {
		return parseURL(text)
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return &url.URL{Scheme: "http", Host: net.JoinHostPort(address.Address, strconv.Itoa(port)), Path: endpoints.ProbePath}, nil
		}
	}
	return nil, errors.New("the Node has no internal address")
}

// parseURL parses the annotation. Permission to change a Node must not be enough to make
// the scheduler call any URL: only the path of an agent is accepted.
func parseURL(text string) (*url.URL, error) {
	if len(text) > maxURLBytes {
		return nil, fmt.Errorf("annotation %s: is longer than %d bytes", endpoints.AnnotationProbeURL, maxURLBytes)
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: is no URL", endpoints.AnnotationProbeURL)
	}
	switch {
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		err = errors.New("must begin with http or https")
	case parsed.Hostname() == "":
		err = errors.New("must have a host")
	case parsed.User != nil:
		err = errors.New("must not have a user")
	case parsed.Path != endpoints.ProbePath:
		err = fmt.Errorf("must have the path %s", endpoints.ProbePath)
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", endpoints.AnnotationProbeURL, err)
	}
	return parsed, nil
}

// probeURL adds a question to an agent's URL.
func probeURL(agent *url.URL, question estimate.Question) string {
	full := *agent
	query := full.Query()
	query.Set("target", question.Target)
	query.Set("module", question.Module)
	full.RawQuery, full.Fragment = query.Encode(), ""
	return full.String()
}

// checkAddress refuses connections to addresses that no agent has, but that may serve
// secrets: the metadata services of clouds. It gets the resolved address.
func checkAddress(_, address string, _ syscall.RawConn) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := parsed.Addr().Unmap()
	if ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return fmt.Errorf("%s is no address of an agent", ip)
	}
	return nil
}
