// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// attempts is how often a write is tried that others get in the way of.
const attempts = 4

// store reads and writes the ConfigMap.
type store struct {
	kube            kubernetes.Interface
	namespace, name string
	// known is the ConfigMap as it was read or written last; nil if there is none, or it is not known.
	known *corev1.ConfigMap
}

// read returns the sections; none if there is no ConfigMap.
func (s *store) read(ctx context.Context) (map[string][]byte, error) {
	object, err := s.kube.CoreV1().ConfigMaps(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		s.known = nil
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", s.namespace, s.name, err)
	}
	s.known = object
	return object.BinaryData, nil
}

// write writes the sections, over those of others. mayWrite is asked before each attempt.
func (s *store) write(ctx context.Context, sections map[string][]byte, mayWrite func() bool) error {
	var err error
	for range attempts {
		if !mayWrite() {
			return errors.New("another gpu-scheduler leads")
		}
		if err = s.put(ctx, sections); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			break
		}
		if _, readErr := s.read(ctx); readErr != nil {
			return readErr
		}
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", s.namespace, s.name, err)
	}
	return nil
}

func (s *store) put(ctx context.Context, sections map[string][]byte) (err error) {
	configMaps := s.kube.CoreV1().ConfigMaps(s.namespace)
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}, BinaryData: sections}
	if s.known == nil {
		written, err = configMaps.Create(ctx, written, metav1.CreateOptions{})
	} else {
		written.ObjectMeta = *s.known.ObjectMeta.DeepCopy()
		written, err = configMaps.Update(ctx, written, metav1.UpdateOptions{})
	}
	if err == nil {
		s.known = written
	}
	return err
}
