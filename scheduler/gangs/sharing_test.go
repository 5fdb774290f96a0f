// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// named is a selector and a preference that is identified by its name.
type named struct{ name string }

func (n *named) Key() string                    { return n.name }
func (n *named) Admits(string) placement.Reason { return placement.Fits }
func (n *named) Score(string) float64           { return 0 }

func TestEqualSelectorsAndPreferencesAreShared(t *testing.T) {
	t.Parallel()
	s := newSharing()
	shapeOf := func(name string) placement.Shape {
		shape := placement.Shape{Selector: &named{name}, Preference: &named{name}}
		s.share(&shape)
		return shape
	}
	first, second, other := shapeOf("a"), shapeOf("a"), shapeOf("b")
	if first.Selector != second.Selector || first.Preference != second.Preference {
		t.Error("equal ones are not shared")
	}
	if first.Selector == other.Selector || first.Preference == other.Preference {
		t.Error("different ones are shared")
	}
	var none placement.Shape
	if s.share(&none); none.Selector != nil || none.Preference != nil {
		t.Error("a shape without any gets some")
	}
}

func TestWhatNoMemberHasAnyMoreIsNotKept(t *testing.T) {
	t.Parallel()
	s := newSharing()
	shapes := make([]placement.Shape, 3)
	for i, name := range []string{"a", "a", "b"} {
		shapes[i] = placement.Shape{Selector: &named{name}, Preference: &named{name}}
		s.share(&shapes[i])
	}
	s.release(&shapes[0])
	if len(s.selectors) != 2 || len(s.preferences) != 2 {
		t.Errorf("after one of two users has gone, %d selectors and %d preferences are kept, want 2 of each", len(s.selectors), len(s.preferences))
	}
	s.release(&shapes[1])
	s.release(&shapes[2])
	if len(s.selectors) != 0 || len(s.preferences) != 0 {
		t.Errorf("without users, %d selectors and %d preferences are kept", len(s.selectors), len(s.preferences))
	}
}
