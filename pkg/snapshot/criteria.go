// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// SelectorOf returns the Selector with a key: one that was made by Selector.Key.
func SelectorOf(key string) (*Selector, error) {
	text, without := strings.CutPrefix(key, withoutGPUs)
	var c criteria
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("node selector: %w", err)
	}
	s, err := newSelector(c)
	if err != nil {
		return nil, err
	}
	if s.key = text; without {
		s = s.withoutResource()
	}
	return s, nil
}

// PreferenceOf returns the Preference with a key: one that was made by Preference.Key.
func PreferenceOf(key string) (*Preference, error) {
	var w wishes
	if err := json.Unmarshal([]byte(key), &w); err != nil {
		return nil, fmt.Errorf("preferred node affinity: %w", err)
	}
	return w.preference(key), nil
}

// preference returns the Preference with these wishes, and their key.
func (w *wishes) preference(key string) *Preference {
	p := &Preference{key: key, tolerations: w.Tolerations}
	for i := range w.Terms {
		p.uses = append(p.uses, usesOf(&w.Terms[i].Preference)...)
	}
	terms, err := nodeaffinity.NewPreferredSchedulingTerms(w.Terms)
	if p.terms = terms; err != nil {
		return p // the API server accepts no such terms; none counts
	}
	for i := range w.Terms {
		p.total += int64(w.Terms[i].Weight)
	}
	return p
}
