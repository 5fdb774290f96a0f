// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// root is the prefix of all keys of the API server.
const root = "/registry/"

// retryAfter is the pause before a broken watch is continued.
const retryAfter = 200 * time.Millisecond

// Etcd records every revision of the objects of a history from the first one on, until ctx ends.
// It goes on where it was when etcd was down. It fails if revisions are missing, because etcd has
// compacted them, or if it can't read one.
func Etcd(ctx context.Context, client *clientv3.Client, log *Log) error {
	next := int64(1)
	for ctx.Err() == nil {
		watchCtx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		watch := client.Watch(watchCtx, root, clientv3.WithPrefix(), clientv3.WithRev(next), clientv3.WithPrevKV())
		for response := range watch {
			if response.CompactRevision > 0 {
				cancel()
				return fmt.Errorf("etcd has compacted revision %d before it was recorded; the oldest is %d", next, response.CompactRevision)
			}
			if response.Err() != nil {
				break // etcd is down
			}
			if err := recordEvents(response.Events, log); err != nil {
				cancel()
				return err
			}
			next = nextRevision(response, next)
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
	return nil
}

// nextRevision returns the revision to go on with after a response. The one in the header is that of the store,
// which is beyond the last event while the watch still catches up.
func nextRevision(response clientv3.WatchResponse, next int64) int64 {
	if len(response.Events) == 0 {
		return next
	}
	return response.Events[len(response.Events)-1].Kv.ModRevision + 1
}

func recordEvents(events []*clientv3.Event, log *Log) error {
	for _, event := range events {
		object, err := decodeEvent(event)
		if err != nil {
			return fmt.Errorf("revision %d of %s: %w", event.Kv.ModRevision, event.Kv.Key, err)
		}
		if object != nil {
			log.Append(history.Entry{Object: object})
		}
	}
	return nil
}

// decodeEvent returns nil for kinds of objects that a history does not have.
func decodeEvent(event *clientv3.Event) (*history.Object, error) {
	kind := kindOf(string(event.Kv.Key))
	if kind == "" {
		return nil, nil //nolint:nilnil // nothing to record is no error
	}
	object := &history.Object{Revision: event.Kv.ModRevision, Kind: kind}
	value := event.Kv.Value
	if event.Type == clientv3.EventTypeDelete {
		object.Deleted = true
		if event.PrevKv == nil {
			return nil, fmt.Errorf("the revision before the deletion is unknown")
		}
		value = event.PrevKv.Value
	}
	return object, decode(value, object)
}

// prefixes are the keys of the API server, in etcd, of the kinds of a history.
var prefixes = map[string]history.Kind{
	"pods/":                      history.KindPod,
	"minions/":                   history.KindNode,
	"namespaces/":                history.KindNamespace,
	"events/":                    history.KindEvent,
	v1.GroupName + "/gputasks/":  history.KindTask,
	v1.GroupName + "/moveplans/": history.KindPlan,
	v1.GroupName + "/gpuqueues/": history.KindQueue,
}

func kindOf(key string) history.Kind {
	name := strings.TrimPrefix(key, root)
	for prefix, kind := range prefixes {
		if strings.HasPrefix(name, prefix) {
			return kind
		}
	}
	return ""
}

// decode decodes what etcd has: JSON for custom resources, protobuf for others.
func decode(value []byte, into *history.Object) error {
	var err error
	switch into.Kind {
	case history.KindTask:
		into.Task = &v1.GPUTask{}
		err = json.Unmarshal(value, into.Task)
	case history.KindPlan:
		into.Plan = &v1.MovePlan{}
		err = json.Unmarshal(value, into.Plan)
	case history.KindQueue:
		into.Queue = &v1.GPUQueue{}
		err = json.Unmarshal(value, into.Queue)
	default:
		err = decodeBuiltIn(value, into)
	}
	if err != nil {
		return err
	}
	into.Meta().ManagedFields = nil // they are most of an object's bytes; requests say who wrote
	return nil
}

func decodeBuiltIn(value []byte, into *history.Object) error {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return err
	}
	switch object := object.(type) {
	case *corev1.Pod:
		into.Pod = object
	case *corev1.Node:
		into.Node = object
	case *corev1.Namespace:
		into.Namespace = object
	case *corev1.Event:
		into.Event = object
	default:
		return decodeEventsV1(value, into)
	}
	return nil
}

// decodeEventsV1 decodes an Event that was written as one of events.k8s.io.
func decodeEventsV1(value []byte, into *history.Object) error {
	into.Event = &corev1.Event{}
	_, _, err := scheme.Codecs.UniversalDecoder(corev1.SchemeGroupVersion).Decode(value, nil, into.Event)
	return err
}
