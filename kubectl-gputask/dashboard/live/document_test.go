// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// mirror is what a viewer knows, by collection and key.
type mirror map[string]map[string]string

// received is an update as the page reads it.
type received struct {
	Version uint64                                `json:"version"`
	Reset   bool                                  `json:"reset"`
	Set     map[string]map[string]json.RawMessage `json:"set"`
	Remove  map[string][]string                   `json:"remove"`
}

// follow applies the next update of a viewer.
func (m *mirror) follow(t *testing.T, viewer *Viewer) received {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	text, err := viewer.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var update received
	if err := json.Unmarshal(text, &update); err != nil {
		t.Fatal(err)
	}
	if update.Reset {
		*m = mirror{}
	}
	for name, rows := range update.Set {
		if (*m)[name] == nil {
			(*m)[name] = map[string]string{}
		}
		for key, value := range rows {
			(*m)[name][key] = string(value)
		}
	}
	for name, keys := range update.Remove {
		for _, key := range keys {
			if _, known := (*m)[name][key]; !known && update.Reset {
				t.Errorf("a reset removes %s %q", name, key)
			}
			delete((*m)[name], key)
		}
	}
	return update
}

func (m mirror) String() string {
	text, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func replace(t *testing.T, document *Document, rows Rows) {
	t.Helper()
	if err := document.Replace(rows); err != nil {
		t.Fatal(err)
	}
}

func TestAViewerGetsEverythingAndThenWhatHasChanged(t *testing.T) {
	t.Parallel()
	document := NewDocument()
	replace(t, document, Rows{"nodes": {"a": 1, "b": 2}, "tasks": {"x": "new"}})
	viewer, known := document.NewViewer(), mirror{}
	if first := known.follow(t, viewer); !first.Reset || len(first.Set["nodes"]) != 2 {
		t.Errorf("at first it gets %+v", first)
	}
	replace(t, document, Rows{"nodes": {"a": 1, "c": 3}})
	second := known.follow(t, viewer)
	if second.Reset || len(second.Set) != 1 || len(second.Set["nodes"]) != 1 || len(second.Remove["nodes"]) != 1 || second.Remove["nodes"][0] != "b" {
		t.Errorf("then it gets %+v", second)
	}
	if got, want := known.String(), `{"nodes":{"a":"1","c":"3"},"tasks":{"x":"\"new\""}}`; got != want {
		t.Errorf("it knows %s, want %s", got, want)
	}
}

func TestWhatIsEqualIsNoChange(t *testing.T) {
	t.Parallel()
	document := NewDocument()
	replace(t, document, Rows{"nodes": {"a": map[string]int{"free": 1, "busy": 2}}})
	viewer, known := document.NewViewer(), mirror{}
	known.follow(t, viewer)
	replace(t, document, Rows{"nodes": {"a": map[string]int{"busy": 2, "free": 1}}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if text, err := viewer.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it gets %s, %v", text, err)
	}
}

func TestAViewerWaitsUntilThereIsSomething(t *testing.T) {
	t.Parallel()
	document := NewDocument()
	viewer, known, got := document.NewViewer(), mirror{}, make(chan received)
	go func() { got <- known.follow(t, viewer) }()
	replace(t, document, Rows{"nodes": {"a": 1}})
	if update := <-got; !update.Reset || len(update.Set["nodes"]) != 1 {
		t.Errorf("it gets %+v", update)
	}
}

func TestARowThatCannotBeWrittenIsAnErrorAndChangesNothing(t *testing.T) {
	t.Parallel()
	document := NewDocument()
	err := document.Replace(Rows{"nodes": {"a": func() {}}})
	if err == nil || !strings.Contains(err.Error(), `writing nodes "a"`) {
		t.Errorf("error %v", err)
	}
	if document.version != 0 {
		t.Error("there is a new version")
	}
}

func TestAViewerThatWasAwayForTooManyDeletionsGetsEverythingAnew(t *testing.T) {
	t.Parallel()
	document := NewDocument()
	many := map[string]any{"stays": 0}
	for i := range maxDeleted + 1 {
		many[fmt.Sprint(i)] = i
	}
	replace(t, document, Rows{"pods": many})
	viewer, known := document.NewViewer(), mirror{}
	known.follow(t, viewer)
	replace(t, document, Rows{"pods": {"stays": 0}})
	replace(t, document, Rows{"pods": {"stays": 0, "new": 1}}) // now the deletions are forgotten
	if update := known.follow(t, viewer); !update.Reset {
		t.Error("it gets no reset")
	}
	if got, want := known.String(), `{"pods":{"new":"1","stays":"0"}}`; got != want {
		t.Errorf("it knows %s, want %s", got, want)
	}
}

// TestAllViewersEndWithTheSame lets viewers follow at their own pace while rows change at random.
func TestAllViewersEndWithTheSame(t *testing.T) {
	t.Parallel()
	const rounds, viewers = 300, 5
	document, random := NewDocument(), rand.New(rand.NewPCG(1, 2))
	rows := map[string]any{}
	replace(t, document, Rows{"rows": {"first": 0}})
	var running sync.WaitGroup
	results := make([]mirror, viewers)
	for i := range viewers {
		running.Go(func() {
			viewer := document.NewViewer()
			for results[i]["rows"]["end"] == "" {
				results[i].follow(t, viewer)
			}
		})
	}
	for range rounds {
		for range 1 + random.IntN(5) {
			key := fmt.Sprint(random.IntN(40))
			if random.IntN(3) == 0 {
				delete(rows, key)
			} else {
				rows[key] = random.IntN(3)
			}
		}
		replace(t, document, Rows{"rows": maps.Clone(rows)})
	}
	rows["end"] = true
	replace(t, document, Rows{"rows": rows})
	running.Wait()
	want := mirror{"rows": {}}
	for key, value := range rows {
		want["rows"][key] = fmt.Sprint(value)
	}
	for i := range results {
		if got := results[i].String(); got != want.String() {
			t.Errorf("viewer %d knows %s, want %s", i, got, want)
		}
	}
}
