// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhatARequestSelectsIsFoundAnewWhenTheDevicesHaveChanged(t *testing.T) {
	t.Parallel()
	w := world()
	slice := w.slices[0]
	w.slices = nil
	counter, pod := w.counter(), w.podWith([]resourcev1.DeviceRequest{request("gpu", 2)})
	if got := askedBy(t, counter, pod); got != 0 {
		t.Errorf("%d GPUs of devices that do not exist", got)
	}
	steps := []struct {
		name    string
		change  func()
		want    int
		changed bool
	}{
		{"devices come", func() { counter.SliceChanged(nil, slice) }, 2, true},
		{"others come", func() { counter.SliceChanged(nil, named(slice, "b")) }, 2, false},
		{"the first ones go", func() { counter.SliceChanged(slice, nil) }, 2, false},
		{"the others go", func() { counter.SliceChanged(named(slice, "b"), nil) }, 0, true},
		{"and come back", func() { counter.SliceChanged(nil, slice) }, 2, true},
		{"the class selects something else", func() { w.classes["gpu"] = classOf("gpu", "false"); counter.ClassChanged("gpu") }, 0, true},
		{"another class changes", func() { counter.ClassChanged("mig") }, 0, false},
	}
	for _, step := range steps {
		step.change()
		select {
		case <-counter.Due():
		default:
			if step.changed {
				t.Errorf("%s: nobody is told", step.name)
			}
		}
		if changed := counter.Resolve(t.Context()); len(changed) > 0 != step.changed {
			t.Errorf("%s: Pods that may ask for other GPUs: %v", step.name, changed)
		}
		if got, known := counter.GPUs(pod); got != step.want || !known {
			t.Errorf("%s: %d GPUs, known %t; want %d", step.name, got, known, step.want)
		}
	}
}

// named returns a slice with another name, on a node of that name.
func named(slice *resourcev1.ResourceSlice, name string) *resourcev1.ResourceSlice {
	slice = slice.DeepCopy()
	slice.Name, slice.Spec.NodeName, slice.Spec.Pool.Name = name, &name, name
	return slice
}

func TestNothingIsSaidOfAPodUntilItIsFoundOut(t *testing.T) {
	t.Parallel()
	w := world()
	counter, pod := w.counter(), w.podWith([]resourcev1.DeviceRequest{request("gpu", 2)})
	if _, known := counter.GPUs(pod); known {
		t.Error("known of a Pod that is not followed")
	}
	counter.Follow(pod)
	if _, known := counter.GPUs(pod); known {
		t.Error("known before anybody has looked")
	}
	if got := counter.Resolve(t.Context()); !cmp.Equal(got, []types.NamespacedName{nameOf(pod)}) {
		t.Errorf("found out for %v", got)
	}
	counter.Forget(nameOf(pod))
	if len(counter.selections.byKey) > 0 || len(counter.selections.users) > 0 {
		t.Errorf("kept although no Pod uses it: %v", counter.selections)
	}
}

// kube-scheduler may have asked about a Pod before the Counter follows it, and keeps it out of its queue until it is
// returned here.
func TestAPodThatComesLaterIsFoundOutEvenIfTheSameIsKnownOfAnotherOne(t *testing.T) {
	t.Parallel()
	w := world()
	counter, first := w.counter(), w.podWith([]resourcev1.DeviceRequest{request("gpu", 2)})
	later := first.DeepCopy()
	later.Name = "later"
	askedBy(t, counter, first)
	<-counter.Due()

	counter.Follow(later)
	select {
	case <-counter.Due():
	default:
		t.Error("nobody is to look")
	}
	for _, want := range [][]types.NamespacedName{{nameOf(later)}, nil} {
		if got := counter.Resolve(t.Context()); !cmp.Equal(got, want) {
			t.Errorf("found out for %v, want %v", got, want)
		}
	}
	counter.Follow(later)
	if len(counter.Due()) > 0 {
		t.Error("it is looked again although nothing has changed")
	}
	counter.Forget(nameOf(later))
	counter.Follow(later)
	counter.Forget(nameOf(later))
	if got := counter.Resolve(t.Context()); len(got) > 0 {
		t.Errorf("found out for %v, which is gone", got)
	}
}

// randomWorld changes at random.
type randomWorld struct {
	*objects
	random *rand.Rand
	slices map[string]*resourcev1.ResourceSlice
	pods   map[string]*corev1.Pod
	// told is what the Pods ask for as it was found when they came, or when Resolve has returned them.
	told map[string]int
}

func (w *randomWorld) slice(name string) *resourcev1.ResourceSlice {
	slice := sliceOf(name, name)
	for i := range w.random.IntN(4) {
		kind := [...]string{"gpu", "mig", "nic"}[w.random.IntN(3)]
		attributes := map[string]string{"type": kind, "model": strconv.Itoa(w.random.IntN(5))}
		if kind != "nic" {
			attributes["uuid"] = fmt.Sprint(name, i)
		}
		if kind == "mig" {
			attributes["parentUUID"] = "of-" + name
		}
		slice.Spec.Devices = append(slice.Spec.Devices, deviceOf(fmt.Sprint("d", i), attributes))
	}
	return slice
}

func (w *randomWorld) class(name string) *resourcev1.DeviceClass {
	return classOf(name, fmt.Sprintf(`device.attributes["gpu.example.com"].%s == "%s"`,
		[...]string{"type", "model"}[w.random.IntN(2)], [...]string{"gpu", "mig", "nic", "0", "1"}[w.random.IntN(5)]))
}

// pod is a new Pod that asks for devices of up to two models.
func (w *randomWorld) pod(name string) *corev1.Pod {
	var requests []resourcev1.DeviceRequest
	for range 1 + w.random.IntN(2) {
		requests = append(requests, request([...]string{"gpu", "mig", "other"}[w.random.IntN(3)], 1, func(r *resourcev1.ExactDeviceRequest) {
			model := fmt.Sprintf(`device.attributes["gpu.example.com"].model == "%d"`, w.random.IntN(6))
			r.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: model}}}
		}))
	}
	pod := w.podWith(requests)
	claim := w.claims["a"]
	delete(w.claims, "a")
	claim.Name, claim.OwnerReferences[0].UID = "claim-"+name, types.UID(name)
	w.claims[claim.Name] = claim
	pod.Name, pod.UID, pod.Status.ResourceClaimStatuses[0].ResourceClaimName = name, types.UID(name), &claim.Name
	return pod
}

// change makes one change, of which the Counter is told.
func (w *randomWorld) change(counter *Counter) {
	name := strconv.Itoa(w.random.IntN(12))
	switch w.random.IntN(10) {
	case 0:
		class := [...]string{"gpu", "mig", "other"}[w.random.IntN(3)]
		if w.classes[class] = w.class(class); w.random.IntN(4) == 0 {
			delete(w.classes, class)
		}
		counter.ClassChanged(class)
	case 1, 2:
		w.pods[name] = w.pod(name)
		counter.Follow(w.pods[name])
		w.told[name], _ = counter.GPUs(w.pods[name]) // as its event does
	case 3:
		if pod := w.pods[name]; pod != nil {
			counter.Forget(nameOf(pod))
			delete(w.pods, name)
		}
	case 4, 5, 6:
		counter.SliceChanged(w.slices[name], nil)
		delete(w.slices, name)
	default:
		next := w.slice(name)
		counter.SliceChanged(w.slices[name], next)
		w.slices[name] = next
	}
}

// anew returns what the Pods ask for as a new Counter finds it out.
func (w *randomWorld) anew(t *testing.T) map[string]int {
	t.Helper()
	w.objects.slices = slices.Collect(maps.Values(w.slices))
	counter, counts := w.counter(), map[string]int{}
	for name, pod := range w.pods {
		counts[name] = askedBy(t, counter, pod)
	}
	return counts
}

func TestWhatIsKeptUpToDateIsWhatIsFoundAnew(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		w := &randomWorld{objects: world(), random: rand.New(rand.NewPCG(seed, 1)), slices: map[string]*resourcev1.ResourceSlice{}, pods: map[string]*corev1.Pod{}, told: map[string]int{}}
		w.objects.slices = nil
		counter := w.counter()
		for step := range 100 {
			for range 1 + w.random.IntN(3) {
				w.change(counter)
			}
			for _, name := range counter.Resolve(t.Context()) {
				if pod := w.pods[name.Name]; pod != nil {
					w.told[name.Name], _ = counter.GPUs(pod)
				}
			}
			want, got := w.anew(t), map[string]int{}
			for name, pod := range w.pods {
				var known bool
				if got[name], known = counter.GPUs(pod); !known {
					t.Fatalf("seed %d, step %d: nothing is known of Pod %s", seed, step, name)
				}
				if got[name] != w.told[name] {
					t.Fatalf("seed %d, step %d: Pod %s asks for %d GPUs, and %d were told last", seed, step, name, got[name], w.told[name])
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, step %d (-anew +kept):\n%s", seed, step, diff)
			}
		}
	}
}
