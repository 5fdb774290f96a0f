// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

func TestAStatusThatIsRefusedIsReportedAsAnEvent(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "falldio.com", Resource: "gputasks"}
	tooLarge := apierrors.NewGenericServerResponse(http.StatusInternalServerError, "update", resource, "train", "etcdserver: request is too large", 0, false)
	tooLarge.ErrStatus.Message = "etcdserver: request is too large"
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"too large for the store":   {tooLarge, "Warning StatusRefused the task is too large: the API server can't store its status with it (etcdserver: request is too large); put long"},
		"too large for the server":  {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), "Warning StatusRefused the task is too large"},
		"by a policy":               {apierrors.NewForbidden(resource, "train", nil), "Warning StatusRefused the API server refuses the task's status"},
		"by a conflict: no refusal": {apierrors.NewConflict(resource, "train", nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			task := f.store(newTask("train", 1))
			f.clock.Step(maxProgressDelay)
			f.fake.PrependReactor("update", "gputasks", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			for range 2 { // the first status of a task is held back for a moment
				_ = f.sync(task)
				f.clock.Step(maxProgressDelay)
			}
			var got string
			select {
			case got = <-f.events.Events:
			default:
			}
			if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
				t.Errorf("Event %q, want %q", got, test.want)
			}
		})
	}
}
