// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apierror interprets errors of the API server.
package apierror

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsTransient reports whether an error is due to the API server or to a conflict, not to
// the content of the request.
func IsTransient(err error) bool {
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) ||
		apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// IsTooLarge reports whether the API server, or its store, does not take an object because of its size.
func IsTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(Message(err), "request is too large")
}

// Message returns the API server's own message, without what client-go and callers have
// wrapped around it.
func Message(err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// InvalidFields returns the fields that the API server refuses, and why; nothing if it refuses something else as well.
func InvalidFields(err error) []metav1.StatusCause {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var fields []metav1.StatusCause
	for _, cause := range status.Status().Details.Causes {
		switch cause.Field {
		case "":
			return nil
		case "<nil>": // that some rules were not checked, because of what others say
		default:
			fields = append(fields, cause)
		}
	}
	return fields
}

// InWords returns the invalid fields that an error is about, and why they are, as "spec.cpu: Invalid value: …"; the
// error itself if it is about something else.
func InWords(err error) error {
	fields := InvalidFields(err)
	if len(fields) == 0 {
		return err
	}
	texts := make([]string, len(fields))
	for i := range fields {
		texts[i] = fields[i].Field + ": " + fields[i].Message
	}
	return errors.New(strings.Join(texts, "; "))
}

// LogLevel returns the verbosity at which to log an error that is retried. Conflicts are
// normal.
func LogLevel(err error) int {
	if apierrors.IsConflict(err) {
		return 4
	}
	return 0
}
