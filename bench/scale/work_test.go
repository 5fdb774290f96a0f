// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/fake"
)

// quickly is a rate at which a test need not wait for the first task.
const quickly = 1000

// workAnswered returns work whose creations of tasks are answered with an error.
func workAnswered(answer func() error) *work {
	client := fake.NewClientset()
	client.PrependReactor("create", "gputasks", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, answer()
	})
	return &work{tasks: client}
}

// TestARefusedTaskFailsTheChurn: otherwise the results would be those of a cluster at rest.
func TestARefusedTaskFailsTheChurn(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	w := workAnswered(func() error { return refused })
	if err := w.churn(t.Context(), quickly); !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
}

func TestTheMeasurementFailsWithTheChurn(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	m := &meter{work: workAnswered(func() error { return refused })}
	if _, err := m.measureChurn(t.Context(), &options{rate: quickly, settle: time.Minute}); !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
}

func TestTheEndOfTheChurnIsNoFailure(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := workAnswered(func() error {
		stop()
		return ctx.Err() // as the client does with a request that is under way
	})
	if err := w.churn(ctx, quickly); err != nil {
		t.Errorf("got %v", err)
	}
}
