// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/accounting"
)

// annotationDay is on the ConfigMap of a book: which day it is.
const annotationDay = "falldio.com/usage-day"

// errOutdated is returned by write if somebody else has written the book.
var errOutdated = errors.New("the usage of GPUs was written by another process")

// store keeps books in ConfigMaps.
type store struct {
	kube kubernetes.Interface
	// written is the ConfigMap that was read or written last, nil if there is none.
	written *corev1.ConfigMap
}

func (s *store) forget() { s.written = nil }

// last returns the last book, of at most accounting.Days days; nil if there is none.
func (s *store) last(ctx context.Context, now time.Time) (*accounting.Book, error) {
	for ago := range accounting.Days {
		at := now.AddDate(0, 0, -ago)
		object, err := s.get(ctx, accounting.StoreName(at))
		if err != nil {
			return nil, err
		}
		if object == nil {
			continue
		}
		book, err := accounting.Decode(object.BinaryData[accounting.StoreKey])
		if err != nil {
			klog.FromContext(ctx).Error(err, "Usage can't be read: its day is counted again as far as Pods still exist", "configMap", klog.KObj(object))
			continue
		}
		if book.Day.Equal(accounting.NewBook(at).Day) {
			s.written = object
			return book, nil
		}
	}
	return nil, nil
}

// get returns a ConfigMap, nil if it does not exist.
func (s *store) get(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	object, err := s.kube.CoreV1().ConfigMaps(accounting.StoreNamespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the usage of GPUs: %w", err)
	}
	return object, nil
}

// write writes a book. It fails with errOutdated if somebody else has written since it was read.
func (s *store) write(ctx context.Context, book *accounting.Book) error {
	content, err := book.Encode()
	if err != nil {
		return err
	}
	object, exists, err := s.place(ctx, book)
	if err != nil {
		return err
	}
	object.Annotations = map[string]string{annotationDay: book.Day.Format(time.DateOnly)}
	object.Data, object.BinaryData = nil, map[string][]byte{accounting.StoreKey: content}
	configMaps := s.kube.CoreV1().ConfigMaps(accounting.StoreNamespace)
	if exists {
		object, err = configMaps.Update(ctx, object, metav1.UpdateOptions{})
	} else {
		object, err = configMaps.Create(ctx, object, metav1.CreateOptions{})
	}
	if err != nil {
		s.forget() // it may have been written all the same
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return fmt.Errorf("%w: %w", errOutdated, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("writing the usage of GPUs (is there a namespace %s?): %w", accounting.StoreNamespace, err)
	case err != nil:
		return fmt.Errorf("%w: writing the usage of GPUs: %w", errOutdated, err)
	}
	s.written = object
	return nil
}

// place returns the ConfigMap in which a book is to be written, and whether it exists.
func (s *store) place(ctx context.Context, book *accounting.Book) (object *corev1.ConfigMap, exists bool, err error) {
	name := accounting.StoreName(book.Day)
	if s.written != nil && s.written.Name == name {
		return s.written.DeepCopy(), true, nil
	}
	if object, err = s.get(ctx, name); err != nil {
		return nil, false, err
	}
	if object == nil {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: accounting.StoreNamespace, Name: name}}, false, nil
	}
	if there, err := accounting.Decode(object.BinaryData[accounting.StoreKey]); err == nil && !there.Day.Before(book.Day) {
		return nil, false, errOutdated
	}
	return object, true, nil
}
