// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// wire encodes objects as the API server does.
type wire struct {
	contentType string
	// event encodes an event of a watch around an object that is encoded already.
	event func(kind watch.EventType, object []byte) ([]byte, error)
}

// jsonWire is the format of custom resources.
func jsonWire() wire {
	return wire{contentType: "application/json", event: func(kind watch.EventType, object []byte) ([]byte, error) {
		line, err := json.Marshal(metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}})
		return append(line, '\n'), err
	}}
}

// protobufWire is the format that our clients ask for where there is one: frames with their length.
func protobufWire() wire {
	return wire{contentType: "application/vnd.kubernetes.protobuf;stream=watch", event: func(kind watch.EventType, object []byte) ([]byte, error) {
		raw := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme)
		var event, frame bytes.Buffer
		err := raw.Encode(&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}, &event)
		if err != nil {
			return nil, err
		}
		_, err = protobuf.LengthDelimitedFramer.NewFrameWriter(&frame).Write(event.Bytes())
		return frame.Bytes(), err
	}}
}

// encodeProtobuf encodes an object with its kind.
func encodeProtobuf(object runtime.Object) ([]byte, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	var encoded bytes.Buffer
	err = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &encoded)
	return encoded.Bytes(), err
}

// respond writes a whole object as JSON, which every client understands.
func respond(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) //nolint:errchkjson // objects of the API, to a client that may have gone
}

func respondStatus(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	respond(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Message: message, Code: int32(code), //nolint:gosec // an HTTP status
	})
}

// resourceOf returns the resource of a request's path, with a subresource.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "apis":
		parts = parts[3:]
	case len(parts) > 1 && parts[0] == "api":
		parts = parts[2:]
	default:
		return path
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return fmt.Sprintf("%s/%s", parts[0], parts[2])
	}
	return slices.Concat(parts, []string{""})[0]
}
