// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"falldio.github.io/gpu-controller/pkg/accounting"
)

// written returns a store, another process's, after it has written books.
func written(t *testing.T, kube *kubefake.Clientset, books ...*accounting.Book) {
	t.Helper()
	for _, book := range books {
		if err := (&store{kube: kube}).write(t.Context(), book); err != nil {
			t.Fatal(err)
		}
	}
}

func lastBook(t *testing.T, kube *kubefake.Clientset) *accounting.Book {
	t.Helper()
	book, err := (&store{kube: kube}).last(t.Context(), testTime)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

func TestTheLastBookIsFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// daysAgo are the days whose books there are; want is the one that is found, -1 if none is.
		daysAgo []int
		want    int
	}{
		"there is none":                  {nil, -1},
		"it is today's":                  {[]int{1, 0}, 0},
		"it is an earlier one":           {[]int{9, 8}, 8},
		"it is the earliest that counts": {[]int{accounting.Days - 1}, accounting.Days - 1},
		"it is too old":                  {[]int{accounting.Days}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube := kubefake.NewClientset()
			for _, ago := range test.daysAgo {
				written(t, kube, accounting.NewBook(testTime.AddDate(0, 0, -ago)))
			}
			got := lastBook(t, kube)
			switch {
			case test.want < 0 && got != nil:
				t.Errorf("found that of %s", got.Day)
			case test.want >= 0 && (got == nil || !got.From.Equal(testTime.AddDate(0, 0, -test.want))):
				t.Errorf("found %+v, want that of %d days ago", got, test.want)
			}
		})
	}
}

func TestABookThatCanNotBeReadIsPassedOver(t *testing.T) {
	t.Parallel()
	kube := kubefake.NewClientset()
	written(t, kube, accounting.NewBook(testTime), accounting.NewBook(testTime.AddDate(0, 0, -1)))
	configMaps := kube.CoreV1().ConfigMaps(accounting.StoreNamespace)
	object, err := configMaps.Get(t.Context(), accounting.StoreName(testTime), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.BinaryData = nil
	if _, err := configMaps.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := lastBook(t, kube); got == nil || !got.From.Equal(testTime.AddDate(0, 0, -1)) {
		t.Errorf("found %+v, want that of the day before", got)
	}
	written(t, kube, accounting.NewBook(testTime)) // it is replaced
	if got := lastBook(t, kube); got == nil || !got.From.Equal(testTime) {
		t.Errorf("found %+v, want today's", got)
	}
}

func TestOneProcessDoesNotOverwriteWhatAnotherHasWritten(t *testing.T) {
	t.Parallel()
	book := accounting.NewBook(testTime)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "gpu-usage-78", errors.New("it has changed"))
	for name, prepare := range map[string]func(*testing.T, *kubefake.Clientset, *store){
		"it began the same day": func(t *testing.T, kube *kubefake.Clientset, _ *store) {
			t.Helper()
			written(t, kube, book)
		},
		"it is a round ahead": func(t *testing.T, kube *kubefake.Clientset, _ *store) {
			t.Helper()
			written(t, kube, accounting.NewBook(testTime.AddDate(0, 0, accounting.Days)))
		},
		"it has written since": func(t *testing.T, kube *kubefake.Clientset, s *store) {
			t.Helper()
			written(t, kube, book)
			if _, err := s.last(t.Context(), testTime); err != nil {
				t.Fatal(err)
			}
			kube.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube := kubefake.NewClientset()
			s := &store{kube: kube}
			prepare(t, kube, s)
			if err := s.write(t.Context(), book); !errors.Is(err, errOutdated) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestABookTakesThePlaceOfOneThatIsTooOld(t *testing.T) {
	t.Parallel()
	kube := kubefake.NewClientset()
	written(t, kube, accounting.NewBook(testTime.AddDate(0, 0, -accounting.Days)), accounting.NewBook(testTime))
	list, err := kube.CoreV1().ConfigMaps(accounting.StoreNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("there are %d books, error %v", len(list.Items), err)
	}
	if got := list.Items[0].Annotations[annotationDay]; got != testTime.Format(time.DateOnly) {
		t.Errorf("it is that of %s", got)
	}
}
