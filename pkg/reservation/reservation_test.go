// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func nodeWith(text string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{Annotation: text}}}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	t.Parallel()
	whole := Reservation{
		Plan: "plan-1", Pod: PodKey("default", "train-1"), Kind: Move, GPUs: []string{"GPU-1", "GPU-2"},
		CPU: 2000, Memory: 4096, Others: map[string]int64{"rdma/hca": 2}, Priority: -5, Until: noon(),
	}
	share := Reservation{Plan: "plan-1", Pod: PodKey("default", "train-0"), Kind: Start, Cards: 1, Percent: 30, Until: noon()}
	later := Reservation{Plan: "plan-2", Pod: PodKey("default", "a"), Kind: Start, Until: noon()}
	given := []Reservation{later, whole, share}
	text, err := Format(given)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Of(nodeWith(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Reservation{share, whole, later}, got); diff != "" {
		t.Errorf("read, by plan and Pod (-want +got):\n%s", diff)
	}
	if given[0].Plan != "plan-2" {
		t.Error("the list that was given is changed")
	}
	if again, err := Format(got); err != nil || again != text {
		t.Errorf("written again it is %q, error %v, want %q", again, err, text)
	}
}

func TestNoReservationsAreNoAnnotation(t *testing.T) {
	t.Parallel()
	if text, err := Format(nil); text != "" || err != nil {
		t.Errorf("it is %q, error %v", text, err)
	}
	if list, err := Of(&corev1.Node{}); len(list) > 0 || err != nil {
		t.Errorf("read %v, error %v", list, err)
	}
}

func TestAnAnnotationThatMakesNoSense(t *testing.T) {
	t.Parallel()
	const good = `{"plan":"p","pod":"default/x","kind":"Move","until":"2026-11-21T12:00:00Z"}`
	tests := map[string]struct{ text, want string }{
		"is no list":                        {`{}`, "annotation " + Annotation},
		"is cut off":                        {`[` + good, "annotation " + Annotation},
		"names no Pod":                      {`[` + good + `,{"kind":"Move"}]`, "[1]: pod: is missing"},
		"has an unknown kind":               {`[{"pod":"default/x","kind":"Stay"}]`, `kind: must be Move or Start, is "Stay"`},
		"has more than a card":              {`[{"pod":"default/x","kind":"Move","percent":101}]`, "percent: must be 0 to 100, is 101"},
		"has a negative share":              {`[{"pod":"default/x","kind":"Move","percent":-1}]`, "percent: must be 0 to 100, is -1"},
		"has negative cards":                {`[{"pod":"default/x","kind":"Move","cards":-1}]`, "cards: must be 0 to"},
		"has negative CPU":                  {`[{"pod":"default/x","kind":"Move","cpu":-1}]`, "must not be negative, are -1 and 0"},
		"has more CPU than can be added up": {`[{"pod":"default/x","kind":"Move","cpu":9223372036854775807}]`, "cpu and memory: must be at most 9007199254740992, are 9223372036854775807 and 0"},
		"has more cards than any node has":  {`[{"pod":"default/x","kind":"Move","gpus":["` + strings.Repeat(`x","`, placement.MaxCards) + `x"]}]`, "gpus: must be at most 1024, are 1025"},
		"has negative adapters":             {`[{"pod":"default/x","kind":"Move","others":{"rdma/hca":-1}}]`, "others: rdma/hca: must not be negative, is -1"},
		"has a time that is none":           {`[{"pod":"default/x","kind":"Move","until":"noon"}]`, "annotation " + Annotation},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, err := Of(nodeWith(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "node a") {
				t.Errorf("error %v, want one that names node a and says %q", err, test.want)
			}
			if len(list) > 0 {
				t.Errorf("read %v all the same", list)
			}
		})
	}
}

func TestAReservationEndsByItself(t *testing.T) {
	t.Parallel()
	r := Reservation{Until: noon()}
	for at, want := range map[time.Duration]bool{-time.Second: true, 0: false, time.Second: false} {
		if got := r.Holds(noon().Add(at)); got != want {
			t.Errorf("%s after its end it holds %t, want %t", at, got, want)
		}
	}
}

func TestHowMuchIsKept(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kept           Reservation
		cards, percent int
	}{
		"cards by their names":      {Reservation{GPUs: []string{"x", "y"}}, 2, placement.Card},
		"cards without names":       {Reservation{Cards: 3}, 3, placement.Card},
		"a share":                   {Reservation{GPUs: []string{"x"}, Percent: 30}, 1, 30},
		"nothing but CPU":           {Reservation{CPU: 100}, 0, placement.Card},
		"named cards and how many ": {Reservation{GPUs: []string{"x", "y"}, Cards: 2}, 2, placement.Card},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if cards, percent := test.kept.Count(), test.kept.PercentOfEach(); cards != test.cards || percent != test.percent {
				t.Errorf("it is %d × %d %%, want %d × %d %%", cards, percent, test.cards, test.percent)
			}
		})
	}
}
