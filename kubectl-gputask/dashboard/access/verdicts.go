// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

const (
	// verdictFor is how long a verdict on a token holds; kube-apiserver's own extensions remember reviews for as long.
	verdictFor = 10 * time.Second
	// admittedFor is how long a token that was admitted is reviewed again without a limit.
	admittedFor = time.Hour
	// maxTokens is how many tokens are remembered, those that were used last.
	maxTokens = 1024
)

// verdicts remembers the verdicts on tokens, by the tokens' hashes.
type verdicts struct {
	// admitted and refused are apart, so that a flood of forged tokens displaces nobody's admission.
	admitted, refused *cache.LRUExpireCache
	// lately are the tokens that were admitted lately. Viewers have their token, and are not kept for so long.
	lately  *cache.LRUExpireCache
	reviews singleflight.Group
}

func newVerdicts(clock clock.Clock) verdicts {
	return verdicts{
		admitted: cache.NewLRUExpireCacheWithClock(maxTokens, clock), refused: cache.NewLRUExpireCacheWithClock(maxTokens, clock),
		lately: cache.NewLRUExpireCacheWithClock(maxTokens, clock),
	}
}

// verdict returns the verdict on a token, by a review if none is known. Requests with the same token share a review.
func (v *verdicts) verdict(ctx context.Context, token string, review func(ctx context.Context, admittedLately bool) (*Viewer, error)) (*Viewer, error) {
	sum := sha256.Sum256([]byte(token))
	key := string(sum[:])
	if viewer, found := v.admitted.Get(key); found {
		return viewer.(*Viewer), nil
	}
	if refusal, found := v.refused.Get(key); found {
		return nil, refusal.(*RefusedError)
	}
	answer := v.reviews.DoChan(key, func() (any, error) {
		_, lately := v.lately.Get(key)
		// The first of the requests may be canceled, the others not.
		viewer, err := review(context.WithoutCancel(ctx), lately)
		v.remember(key, viewer, err)
		return viewer, err
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case got := <-answer:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.(*Viewer), nil
	}
}

// remember remembers a verdict. That a review failed is none.
func (v *verdicts) remember(key string, viewer *Viewer, err error) {
	var refusal *RefusedError
	switch {
	case err == nil:
		v.admitted.Add(key, viewer, verdictFor)
		v.lately.Add(key, true, admittedFor)
	case errors.As(err, &refusal):
		v.refused.Add(key, refusal, verdictFor)
		v.lately.Remove(key)
	}
}
