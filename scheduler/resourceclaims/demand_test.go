// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// objects are what is in the API server.
type objects struct {
	claims  map[string]*resourcev1.ResourceClaim
	classes map[string]*resourcev1.DeviceClass
	slices  []*resourcev1.ResourceSlice
}

var errNotFound = errors.New("not found") //nolint:gochecknoglobals // a constant

func find[T any](from map[string]*T, name string) (*T, error) {
	if found := from[name]; found != nil {
		return found, nil
	}
	return nil, errNotFound
}

func (o *objects) counter() *Counter {
	counter := NewCounter(Objects{
		Claim: func(_, name string) (*resourcev1.ResourceClaim, error) { return find(o.claims, name) },
		Class: func(name string) (*resourcev1.DeviceClass, error) { return find(o.classes, name) },
		Owned: func(pod types.UID) (owned []*resourcev1.ResourceClaim) {
			for _, claim := range o.claims {
				if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && owner.UID == pod {
					owned = append(owned, claim)
				}
			}
			return owned
		},
	})
	for _, slice := range o.slices {
		counter.SliceChanged(nil, slice)
	}
	return counter
}

// askedBy returns what a Pod asks for, once that is found out.
func askedBy(t *testing.T, counter *Counter, pod *corev1.Pod) int {
	t.Helper()
	counter.Follow(pod)
	counter.Resolve(t.Context())
	count, known := counter.GPUs(pod)
	if !known {
		t.Error("it is not known how many GPUs the Pod asks for")
	}
	return count
}

func classOf(name, expression string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}},
	}}
}

// world has two GPUs, a part of a third, and a network adapter.
func world() *objects {
	return &objects{
		claims: map[string]*resourcev1.ResourceClaim{},
		classes: map[string]*resourcev1.DeviceClass{
			"gpu":   classOf("gpu", `device.attributes["gpu.example.com"].type == "gpu"`),
			"mig":   classOf("mig", `device.attributes["gpu.example.com"].type == "mig"`),
			"nic":   classOf("nic", `device.attributes["gpu.example.com"].type == "nic"`),
			"any":   classOf("any", `device.driver == "gpu.example.com"`),
			"wrong": classOf("wrong", `device.nothing`),
		},
		slices: []*resourcev1.ResourceSlice{sliceOf("a", "a",
			deviceOf("g0", map[string]string{"uuid": "GPU-0", "type": "gpu", "model": "H100"}), deviceOf("g1", map[string]string{"uuid": "GPU-1", "type": "gpu", "model": "H100"}),
			deviceOf("m0", map[string]string{"uuid": "MIG-0", "parentUUID": "GPU-2", "type": "mig"}), deviceOf("n0", map[string]string{"type": "nic"}),
		)},
	}
}

// request asks for devices of a class; 0 leaves the count to the default.
func request(class string, count int64, change ...func(*resourcev1.ExactDeviceRequest)) resourcev1.DeviceRequest {
	exactly := &resourcev1.ExactDeviceRequest{DeviceClassName: class, Count: count}
	for _, apply := range change {
		apply(exactly)
	}
	return resourcev1.DeviceRequest{Name: "r", Exactly: exactly}
}

// podWith returns a Pod with claims that were made for it: one for each list of requests.
func (o *objects) podWith(claims ...[]resourcev1.DeviceRequest) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}}
	for i, requests := range claims {
		name := string(rune('a' + i))
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: new("t")})
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: name, ResourceClaimName: &name})
		o.claims[name] = &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p", Controller: new(true)}}},
			Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
		}
	}
	return pod
}

func TestGPUsOfClaims(t *testing.T) {
	t.Parallel()
	all := func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode = resourcev1.DeviceAllocationModeAll }
	admin := func(r *resourcev1.ExactDeviceRequest) { r.AdminAccess = new(true) }
	half := func(r *resourcev1.ExactDeviceRequest) {
		r.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"percent": resource.MustParse("50")}}
	}
	model := func(name string) func(*resourcev1.ExactDeviceRequest) {
		return func(r *resourcev1.ExactDeviceRequest) {
			r.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].model == "` + name + `"`}}}
		}
	}
	alternatives := resourcev1.DeviceRequest{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "s", DeviceClassName: "gpu", Count: 1}}}
	one := func(requests ...resourcev1.DeviceRequest) [][]resourcev1.DeviceRequest {
		return [][]resourcev1.DeviceRequest{requests}
	}
	tests := map[string]struct {
		claims [][]resourcev1.DeviceRequest
		want   int
	}{
		"a Pod without claims":                       {nil, 0},
		"two GPUs":                                   {one(request("gpu", 2)), 2},
		"one, as nothing else is said":               {one(request("gpu", 0)), 1},
		"several requests, and other devices":        {one(request("gpu", 2), request("nic", 4), request("gpu", 1)), 3},
		"several claims":                             {[][]resourcev1.DeviceRequest{{request("gpu", 2)}, {request("nic", 1)}, {request("gpu", 1)}}, 3},
		"other devices alone":                        {one(request("nic", 1)), 0},
		"GPUs of a model that exists":                {one(request("gpu", 2, model("H100"))), 2},
		"GPUs of a model that does not":              {one(request("gpu", 2, model("B200"))), 0},
		"all that there are":                         {one(request("gpu", 0, all)), 0},
		"a part of one":                              {one(request("gpu", 1, half)), 0},
		"whole ones, and a part of one":              {one(request("gpu", 1), request("gpu", 1, half)), 0},
		"whole ones, and a part in another claim":    {[][]resourcev1.DeviceRequest{{request("gpu", 1)}, {request("gpu", 1, half)}}, 0},
		"administrator access":                       {one(request("gpu", 1, admin)), 0},
		"MIG slices":                                 {one(request("mig", 1)), 0},
		"a GPU or a MIG slice":                       {one(request("any", 1)), 0},
		"alternatives":                               {one(alternatives), 0},
		"a class that does not exist":                {one(request("none", 1)), 0},
		"a class with an expression that is invalid": {one(request("wrong", 1)), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world()
			pod := w.podWith(test.claims...)
			if got := askedBy(t, w.counter(), pod); got != test.want {
				t.Errorf("%d GPUs, want %d", got, test.want)
			}
		})
	}
}

func TestOnlyClaimsOfThePodsOwnCount(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*objects, *corev1.Pod)
		want   int
	}{
		"a claim that was allocated in an attempt that was interrupted": {func(o *objects, _ *corev1.Pod) {
			o.claims["a"].Status.Allocation = &resourcev1.AllocationResult{}
		}, 2},
		"a claim that others may use": {func(_ *objects, pod *corev1.Pod) {
			pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "a", ResourceClaimName: new("a")}
		}, 0},
		"a claim of an earlier Pod of the name": {func(o *objects, _ *corev1.Pod) { o.claims["a"].OwnerReferences[0].UID = "q" }, 0},
		"a claim that does not exist yet":       {func(o *objects, _ *corev1.Pod) { delete(o.claims, "a") }, 0},
		"a claim whose name is not known yet":   {func(_ *objects, pod *corev1.Pod) { pod.Status.ResourceClaimStatuses = nil }, 0},
		"a claim with constraints": {func(o *objects, _ *corev1.Pod) {
			o.claims["a"].Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: new(resourcev1.FullyQualifiedName("gpu.example.com/model"))}}
		}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world()
			pod := w.podWith([]resourcev1.DeviceRequest{request("gpu", 2)})
			test.change(w, pod)
			if got := askedBy(t, w.counter(), pod); got != test.want {
				t.Errorf("%d GPUs, want %d", got, test.want)
			}
		})
	}
}

func TestWhatAnInterruptedAttemptLeavesBehind(t *testing.T) {
	t.Parallel()
	w := world()
	pod := w.podWith([]resourcev1.DeviceRequest{request("gpu", 2)}, []resourcev1.DeviceRequest{request("gpu", 1)})
	counter := w.counter()
	if counter.Missing(pod) || len(counter.Stale(pod)) > 0 || counter.HasAllocation(pod) {
		t.Errorf("claims that wait: missing %t, stale %v, allocated %t", counter.Missing(pod), counter.Stale(pod), counter.HasAllocation(pod))
	}
	w.claims["b"].Status.Allocation = &resourcev1.AllocationResult{}
	if stale := counter.Stale(pod); len(stale) != 1 || stale[0].Name != "b" || !counter.HasAllocation(pod) {
		t.Errorf("stale claims: %v", stale)
	}
	w.claims["b"].DeletionTimestamp = new(metav1.Now())
	if stale := counter.Stale(pod); len(stale) > 0 {
		t.Errorf("a claim that is being deleted: %v", stale)
	}
	w.claims["a"].Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	if stale := counter.Stale(pod); len(stale) != 1 || stale[0].Name != "a" {
		t.Errorf("a claim of extended resources: %v", stale)
	}
	delete(w.claims, "a")
	if !counter.Missing(pod) {
		t.Error("a claim is missing, and nobody knows")
	}
}
