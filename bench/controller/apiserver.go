// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// apiServer is as much of an API server as gpu-controller needs, in memory. Lists are streamed as
// watches, in the API server's formats. Pods can't be created, as a quota is exhausted, unless created is set.
type apiServer struct {
	*httptest.Server

	mu      sync.Mutex
	version int
	// collections are by resource; "pods" are those of tasks, "pods of others" the rest.
	collections map[string]*collection
	// created is called with each Pod that is created, and deleted with the name of each task that is deleted.
	created func(*corev1.Pod)
	deleted func(task string)
	// requests are the requests so far, by verb and resource, without watches.
	requests map[string]int
}

// collection is the objects of a resource, encoded, and those who watch them.
type collection struct {
	wire
	objects  map[string][]byte
	bookmark []byte
	watchers map[chan []byte]struct{}
}

const othersPods = "pods of others"

func newAPIServer() *apiServer {
	s := &apiServer{version: 1000, collections: map[string]*collection{}, requests: map[string]int{}}
	s.Server = httptest.NewServer(s)
	return s
}

// put stores an object, and tells those who watch.
func (s *apiServer) put(resource, key string, object runtime.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.collection(resource)
	if err != nil {
		return err
	}
	encoded, err := c.encode(object)
	if err != nil {
		return err
	}
	kind := watch.Added
	if c.objects[key] != nil {
		kind = watch.Modified
	}
	c.objects[key] = encoded
	return c.tell(kind, encoded)
}

// remove removes an object, whose last state is given, and tells those who watch.
func (s *apiServer) remove(resource, key string, last runtime.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.collection(resource)
	if err != nil {
		return err
	}
	encoded, err := c.encode(last)
	if err != nil {
		return err
	}
	delete(c.objects, key)
	return c.tell(watch.Deleted, encoded)
}

func (c *collection) encode(object runtime.Object) ([]byte, error) {
	if c.contentType == "application/json" {
		return json.Marshal(object)
	}
	return encodeProtobuf(object)
}

func (c *collection) tell(kind watch.EventType, object []byte) error {
	event, err := c.event(kind, object)
	if err != nil {
		return err
	}
	for watcher := range c.watchers {
		watcher <- event
	}
	return nil
}

// collection returns the collection of a resource, which may be empty.
func (s *apiServer) collection(resource string) (*collection, error) {
	c := s.collections[resource]
	if c != nil {
		return c, nil
	}
	c = &collection{wire: protobufWire(), objects: map[string][]byte{}, watchers: map[chan []byte]struct{}{}}
	mark := metav1.ObjectMeta{ResourceVersion: strconv.Itoa(s.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	var err error
	switch resource {
	case "gputasks", "moveplans":
		c.wire = jsonWire()
		kind := map[string]string{"gputasks": "GPUTask", "moveplans": "MovePlan"}[resource]
		c.bookmark, err = json.Marshal(metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind, APIVersion: v1.GroupVersion.String()}, ObjectMeta: mark})
	default:
		object := prototype(resource)
		if object == nil {
			return nil, fmt.Errorf("unexpected resource %q", resource)
		}
		object.SetAnnotations(mark.Annotations)
		object.SetResourceVersion(mark.ResourceVersion)
		c.bookmark, err = encodeProtobuf(object)
	}
	s.collections[resource] = c
	return c, err
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, query := resourceOf(r.URL.Path), r.URL.Query()
	if r.Method == http.MethodGet && query.Get("watch") != "" {
		if resource == "pods" && query.Get("fieldSelector") != "" {
			resource = othersPods
		}
		s.serveWatch(w, r, resource)
		return
	}
	s.mu.Lock()
	s.requests[r.Method+" "+resource]++
	s.mu.Unlock()
	switch r.Method + " " + resource {
	case "GET pods": // versions before this one list all Pods that run
		s.servePods(w)
	case "POST pods":
		if s.created != nil {
			s.servePod(w, r)
			return
		}
		respondStatus(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(
			"pods \"x\" is forbidden: exceeded quota: gpus, requested: requests.falldio.com/gpu=1, used: requests.falldio.com/gpu=%d, limited: requests.falldio.com/gpu=100000", s.count()))
	case "POST events", "PATCH events":
		respond(w, http.StatusCreated, corev1.Event{TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}})
	case "DELETE gputasks":
		s.deleted(path.Base(r.URL.Path))
		respond(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	case "PUT gputasks/status":
		s.serveStatus(w, r)
	default:
		respondStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound, r.Method+" "+r.URL.Path)
	}
}

func (s *apiServer) serveWatch(w http.ResponseWriter, r *http.Request, resource string) {
	s.mu.Lock()
	c, err := s.collection(resource)
	if err != nil {
		s.mu.Unlock()
		respondStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound, err.Error())
		return
	}
	events := make(chan []byte, 100_000)
	c.watchers[events] = struct{}{}
	objects := maps.Clone(c.objects)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(c.watchers, events)
	}()
	w.Header().Set("Content-Type", c.contentType)
	if r.URL.Query().Get("sendInitialEvents") != "" {
		if err := c.sendAll(w, objects); err != nil {
			return
		}
	}
	for {
		if flusher, ok := w.(http.Flusher); ok && len(events) == 0 {
			flusher.Flush()
		}
		select {
		case <-r.Context().Done():
			return
		case event := <-events:
			if _, err := w.Write(event); err != nil {
				return
			}
		}
	}
}

// sendAll sends all objects, and then that these were all.
func (c *collection) sendAll(w http.ResponseWriter, objects map[string][]byte) error {
	for _, object := range objects {
		event, err := c.event(watch.Added, object)
		if err != nil {
			return err
		}
		if _, err := w.Write(event); err != nil {
			return err
		}
	}
	event, err := c.event(watch.Bookmark, c.bookmark)
	if err != nil {
		return err
	}
	_, err = w.Write(event)
	return err
}

// servePods lists all Pods.
func (s *apiServer) servePods(w http.ResponseWriter) {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1000"}}
	s.mu.Lock()
	for _, resource := range []string{"pods", othersPods} {
		for _, encoded := range s.collections[resource].objects {
			var pod corev1.Pod
			if _, _, err := decoder().Decode(encoded, nil, &pod); err == nil {
				list.Items = append(list.Items, pod)
			}
		}
	}
	s.mu.Unlock()
	encoded, err := encodeProtobuf(list)
	if err != nil {
		respondStatus(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	_, _ = w.Write(encoded)
}

func (s *apiServer) servePod(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		respondStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	pod := &corev1.Pod{}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, pod); err != nil {
		respondStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	pod.Kind, pod.APIVersion = "Pod", "v1"
	pod.Namespace, pod.UID = namespace, types.UID("00000000-0000-4000-8000-"+pod.Name)
	pod.CreationTimestamp, pod.Status.Phase = metav1.Now(), corev1.PodPending
	if err := s.putPod(pod); err != nil {
		respondStatus(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		return
	}
	s.created(pod.DeepCopy())
	respond(w, http.StatusCreated, pod)
}

// putPod stores a Pod with a new resource version.
func (s *apiServer) putPod(pod *corev1.Pod) error {
	pod.ResourceVersion = strconv.Itoa(s.count())
	return s.put("pods", pod.Name, pod)
}

func (s *apiServer) serveStatus(w http.ResponseWriter, r *http.Request) {
	var task v1.GPUTask
	if err := json.NewDecoder(r.Body).Decode(&task); err != nil {
		respondStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	task.ResourceVersion = strconv.Itoa(s.count())
	task.Kind, task.APIVersion = "GPUTask", v1.GroupVersion.String()
	if err := s.put("gputasks", task.Name, &task); err != nil {
		respondStatus(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		return
	}
	respond(w, http.StatusOK, &task)
}

// count returns a new resource version.
func (s *apiServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	return s.version
}

// counted returns the requests so far.
func (s *apiServer) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// writeKubeconfig writes a kubeconfig for the server.
func (s *apiServer) writeKubeconfig(path string) error {
	return os.WriteFile(path, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
		"users": [{"name": "x", "user": {}}], "clusters": [{"name": "x", "cluster": {"server": %q}}]}`, s.URL), 0o600)
}
