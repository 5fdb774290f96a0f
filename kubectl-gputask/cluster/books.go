// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/accounting"
)

// Books returns the books of GPU time of all days that a period touches and that are kept.
func Books(ctx context.Context, clients *Clients, since, until time.Time) ([]*accounting.Book, error) {
	const day = 24 * time.Hour
	since = since.UTC().Truncate(day)
	if last := until.Add(-accounting.Days * day); since.Before(last) {
		since = last.UTC().Truncate(day)
	}
	var books []*accounting.Book
	for at := since; at.Before(until); at = at.Add(day) {
		book, err := bookOf(ctx, clients, at)
		if err != nil {
			return nil, err
		}
		if book != nil {
			books = append(books, book)
		}
	}
	return books, nil
}

// bookOf returns the book of a day, nil if there is none.
func bookOf(ctx context.Context, clients *Clients, day time.Time) (*accounting.Book, error) {
	name := accounting.StoreName(day)
	object, err := clients.Kube.CoreV1().ConfigMaps(accounting.StoreNamespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("usage is stored in ConfigMaps in namespace %s; ask for the Role gpu-usage-view there: %w", accounting.StoreNamespace, err)
	case err != nil:
		return nil, fmt.Errorf("reading the usage of GPUs: %w", err)
	}
	book, err := accounting.Decode(object.BinaryData[accounting.StoreKey])
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", accounting.StoreNamespace, name, err)
	}
	if !book.Day.Equal(day) {
		return nil, nil // it is that of an earlier day still
	}
	return book, nil
}
