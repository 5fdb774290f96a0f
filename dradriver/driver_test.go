// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/dradriver/prepared"
	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

var beginning = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// fakeGPUs are GPUs whose snapshot a test sets.
type fakeGPUs struct {
	snapshot *gpu.Snapshot
	changed  chan struct{}
}

func (g *fakeGPUs) Snapshot() *gpu.Snapshot  { return g.snapshot }
func (g *fakeGPUs) Changed() <-chan struct{} { return g.changed }

// fixture is a driver that can be killed: its files stay.
type fixture struct {
	*testing.T
	*driver
	time                *clocktesting.FakeClock
	gpus                *fakeGPUs
	pluginDir, cdiDir   string
	undescribed         []string
	othersHave          error
	gone                map[string]bool
	existsErr, fatalErr error
}

func newFixture(t *testing.T, uuids ...string) *fixture {
	t.Helper()
	f := &fixture{T: t, pluginDir: t.TempDir(), cdiDir: t.TempDir(), gone: map[string]bool{}, time: clocktesting.NewFakeClock(beginning)}
	f.gpus = &fakeGPUs{snapshot: &gpu.Snapshot{Taken: beginning}, changed: make(chan struct{})}
	for index, uuid := range uuids {
		f.gpus.snapshot.Devices = append(f.gpus.snapshot.Devices, gpu.Device{Info: gpu.Info{Index: index, UUID: uuid}})
	}
	f.restart()
	return f
}

// restart replaces the driver with another one that knows only the files.
func (f *fixture) restart() {
	f.Helper()
	store, err := prepared.OpenStore(f.pluginDir)
	if err != nil {
		f.Fatal(err)
	}
	f.driver = &driver{
		node: "node-1", clock: f.time, goneSince: map[types.UID]time.Time{}, gpus: f.gpus, store: store, files: prepared.Files{Dir: f.cdiDir},
		described:   func(uuid string) bool { return !slices.Contains(f.undescribed, uuid) },
		checkOthers: func(context.Context, []string) error { return f.othersHave },
		exists: func(_ context.Context, claim prepared.Claim) (bool, error) {
			return !f.gone[claim.Name], f.existsErr
		},
		fail: func(err error) { f.fatalErr = err },
	}
	if err := f.reconcile(); err != nil {
		f.Fatal(err)
	}
}

// claim returns a claim to which devices are allocated, "gpu-a" or "gpu-a:46".
func claim(name string, devices ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for _, text := range devices {
		device, percent, shared := strings.Cut(text, ":")
		result := resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: driverName, Pool: "node-1", Device: device}
		if shared {
			result.ShareID = new(types.UID("share"))
			result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"percent": resource.MustParse(percent)}
		}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, result)
	}
	return c
}

// prepareOne prepares a claim and returns the CDI devices of its containers.
func (f *fixture) prepareOne(c *resourceapi.ResourceClaim) (string, error) {
	f.Helper()
	results, err := f.PrepareResourceClaims(f.Context(), []*resourceapi.ResourceClaim{c})
	if err != nil {
		f.Fatal(err)
	}
	var ids []string
	for _, device := range results[c.UID].Devices {
		if device.PoolName != "node-1" || !slices.Equal(device.Requests, []string{"gpu"}) {
			f.Errorf("the device is %+v", device)
		}
		ids = append(ids, device.CDIDeviceIDs...)
	}
	return strings.Join(ids, " "), results[c.UID].Err
}

func (f *fixture) mustPrepare(c *resourceapi.ResourceClaim, want string) {
	f.Helper()
	if got, err := f.prepareOne(c); err != nil || got != want {
		f.Errorf("ResourceClaim %s gets %q, %v; want %q", c.Name, got, err, want)
	}
}

func (f *fixture) mustRefuse(c *resourceapi.ResourceClaim, why string) {
	f.Helper()
	if got, err := f.prepareOne(c); err == nil || !strings.Contains(err.Error(), why) || got != "" {
		f.Errorf("ResourceClaim %s gets %q, %v; want %s", c.Name, got, err, why)
	}
}

func (f *fixture) unprepare(name string) {
	f.Helper()
	object := kubeletplugin.NamespacedObject{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}, UID: types.UID("uid-" + name)}
	results, err := f.UnprepareResourceClaims(f.Context(), []kubeletplugin.NamespacedObject{object})
	if outcome, listed := results[object.UID]; err != nil || outcome != nil || !listed {
		f.Errorf("releasing %s: %v, %v", name, results, err)
	}
}

// leftBehind returns the files of claims and the prepared claims.
func (f *fixture) leftBehind() string {
	f.Helper()
	files, err := filepath.Glob(filepath.Join(f.cdiDir, "*"))
	if err != nil {
		f.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	for _, c := range f.store.All() {
		files = append(files, c.String())
	}
	return strings.Join(files, " ")
}

func TestAClaimIsPreparedAndReleased(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "GPU-a", "GPU-b")
	whole, share := claim("whole", "gpu-a"), claim("share", "gpu-b:46")
	for range 2 { // the kubelet may ask again
		f.mustPrepare(whole, "gpu.falldio.com/gpu=GPU-a")
		f.mustPrepare(share, "gpu.falldio.com/gpu=GPU-b gpu.falldio.com/claim=uid-share-0")
	}
	if got, want := f.leftBehind(), "gpu.falldio.com-claim_uid-share.json ns/share ns/whole"; got != want {
		t.Errorf("there is %q, want %q", got, want)
	}
	for range 2 {
		f.unprepare("whole")
		f.unprepare("share")
	}
	if got := f.leftBehind(); got != "" {
		t.Errorf("%q is left behind", got)
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*fixture)
		claim  *resourceapi.ResourceClaim
		want   string
	}{
		"a GPU that is gone":                  {nil, claim("new", "gpu-a", "gpu-z"), "GPU gpu-z is no longer there"},
		"a GPU in MIG mode":                   {func(f *fixture) { f.gpus.snapshot.Devices[0].MIG = true }, claim("new", "gpu-a"), "GPU GPU-a is in MIG mode"},
		"a GPU that containers can't get":     {func(f *fixture) { f.undescribed = []string{"GPU-a"} }, claim("new", "gpu-a"), "not described to the container runtime"},
		"before the GPUs have been read":      {func(f *fixture) { f.gpus.snapshot = &gpu.Snapshot{} }, claim("new", "gpu-a"), "have not been read yet"},
		"a GPU that somebody else has":        {func(f *fixture) { f.othersHave = errors.New("theirs") }, claim("new", "gpu-a"), "theirs"},
		"a GPU of a claim":                    {nil, claim("new", "gpu-b"), "has been given to ResourceClaim ns/old"},
		"a GPU of a claim of unknown fate":    {func(f *fixture) { f.existsErr = errors.New("no API server") }, claim("new", "gpu-b"), "still has its GPUs is unknown: no API server"},
		"a claim without an allocation":       {nil, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: "uid-new"}}, "is not allocated"},
		"a claim whose list can't be written": {func(f *fixture) { _ = os.Mkdir(filepath.Join(f.pluginDir, "prepared.json.tmp"), 0o700) }, claim("new", "gpu-a"), "can't be written"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "GPU-a", "GPU-b")
			f.mustPrepare(claim("old", "gpu-b"), "gpu.falldio.com/gpu=GPU-b")
			if test.change != nil {
				test.change(f)
			}
			f.mustRefuse(test.claim, test.want)
			if got := f.leftBehind(); got != "ns/old" {
				t.Errorf("%q is left behind", got)
			}
			if f.failures.Load() != 1 {
				t.Errorf("%d failures are counted", f.failures.Load())
			}
		})
	}
}

// TestAnUnhealthyGPUIsPrepared because the scheduler had its reasons: a claim may tolerate the
// taint, and a Pod that is restarted keeps its GPU.
func TestAnUnhealthyGPUIsPrepared(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "GPU-a")
	f.gpus.snapshot.Devices[0].Fault = &gpu.Fault{Reason: "XID79"}
	f.mustPrepare(claim("new", "gpu-a"), "gpu.falldio.com/gpu=GPU-a")
}

func TestAClaimKeepsItsGPUsWhateverBecomesOfThem(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "GPU-a", "GPU-b")
	c := claim("old", "gpu-a")
	f.mustPrepare(c, "gpu.falldio.com/gpu=GPU-a")
	f.gpus.snapshot = &gpu.Snapshot{Taken: beginning}
	f.othersHave, f.undescribed = errors.New("the kubelet does not answer"), []string{"GPU-a"}
	f.mustPrepare(c, "gpu.falldio.com/gpu=GPU-a")
	f.mustRefuse(claim("old", "gpu-b"), "no longer there") // it has been allocated anew
}

// TestAClaimThatIsGoneBlocksNobodyForEver has the kubelet forget to release claims. It gets the time to
// remember: the containers of a Pod that was deleted by force may still run.
func TestAClaimThatIsGoneBlocksNobodyForEver(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "GPU-a")
	f.mustPrepare(claim("share", "gpu-a:46"), "gpu.falldio.com/gpu=GPU-a gpu.falldio.com/claim=uid-share-0")
	f.mustPrepare(claim("other", "gpu-a:46"), "gpu.falldio.com/gpu=GPU-a gpu.falldio.com/claim=uid-other-0")
	for _, gone := range []bool{true, false, true} { // it is allocated once more in between
		f.time.Step(releaseWait)
		f.gone["share"] = gone
		f.mustRefuse(claim("new", "gpu-a"), "ResourceClaim ns/other and ns/share, which")
	}
	f.time.Step(releaseWait - time.Second)
	f.mustRefuse(claim("new", "gpu-a"), "ResourceClaim ns/other and ns/share, which")
	f.time.Step(time.Second)
	f.mustRefuse(claim("new", "gpu-a"), "ResourceClaim ns/other, which")
	f.gone["other"] = true
	f.mustRefuse(claim("new", "gpu-a"), "ResourceClaim ns/other, which")
	f.time.Step(releaseWait)
	f.mustPrepare(claim("new", "gpu-a"), "gpu.falldio.com/gpu=GPU-a")
	if got := f.leftBehind(); got != "ns/new" {
		t.Errorf("%q is left behind", got)
	}
}

// TestAClaimIsGoneAnewAfterItWasReleased makes sure that no old time counts for a claim.
func TestAClaimIsGoneAnewAfterItWasReleased(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "GPU-a")
	for range 2 {
		f.mustPrepare(claim("old", "gpu-a"), "gpu.falldio.com/gpu=GPU-a")
		f.gone["old"] = true
		if err := f.forgetAllGone(t.Context()); err != nil || f.leftBehind() != "ns/old" {
			t.Errorf("after it has just gone: %q, %v", f.leftBehind(), err)
		}
		f.unprepare("old")
		f.time.Step(releaseWait)
	}
}

// TestADriverThatIsKilledBetweenAnyTwoSteps stops what prepares a share, and what releases it, after each
// of their steps. Then a new driver goes on, and the kubelet asks again, or for the opposite.
func TestADriverThatIsKilledBetweenAnyTwoSteps(t *testing.T) {
	t.Parallel()
	c := claim("share", "gpu-a:46")
	noted, err := prepared.Of(c, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	noted.Devices[0].UUID = "GPU-a"
	file := func(f *fixture, name string) string {
		return filepath.Join(f.cdiDir, "gpu.falldio.com-claim_uid-share.json"+name)
	}
	must := func(f *fixture, err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	moments := map[string]func(*fixture){
		"before anything": func(*fixture) {},
		"while it is being noted": func(f *fixture) {
			must(f, os.WriteFile(filepath.Join(f.pluginDir, "prepared.json.tmp"), []byte("{"), 0o600))
		},
		"after it has been noted": func(f *fixture) { must(f, f.store.Put(noted)) },
		"while the file is written": func(f *fixture) {
			must(f, f.store.Put(noted))
			must(f, os.WriteFile(file(f, ".tmp"), []byte("{"), 0o600))
		},
		"after it has been prepared": func(f *fixture) { must(f, f.store.Put(noted)); must(f, f.files.Write(noted)) },
		"after the file was removed": func(f *fixture) {
			must(f, f.store.Put(noted))
			must(f, f.files.Write(noted))
			must(f, f.files.Remove("uid-share"))
		},
		"after it has been released": func(f *fixture) {
			must(f, f.store.Put(noted))
			must(f, f.files.Write(noted))
			must(f, f.release("uid-share"))
		},
		"after the note alone was lost":  func(f *fixture) { must(f, f.files.Write(noted)) },
		"after its file alone was lost":  func(f *fixture) { must(f, f.store.Put(noted)) },
		"twice, while the file is there": func(f *fixture) { must(f, f.store.Put(noted)); must(f, f.files.Write(noted)); f.restart() },
	}
	for name, moment := range moments {
		for _, then := range []string{"it is prepared", "it is released", "another claim comes, and this one is gone"} {
			t.Run(fmt.Sprintf("%s, then %s", name, then), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, "GPU-a")
				moment(f)
				f.restart()
				want := ""
				switch then {
				case "it is prepared":
					f.mustPrepare(c, "gpu.falldio.com/gpu=GPU-a gpu.falldio.com/claim=uid-share-0")
					want = "gpu.falldio.com-claim_uid-share.json ns/share"
				case "it is released":
					f.unprepare("share")
				default:
					f.gone["share"] = true
					_, _ = f.prepareOne(claim("other", "gpu-a")) // refused if the first one is noted
					f.time.Step(releaseWait)
					f.mustPrepare(claim("other", "gpu-a"), "gpu.falldio.com/gpu=GPU-a")
					want = "ns/other"
				}
				if diff := cmp.Diff(want, f.leftBehind()); diff != "" {
					t.Errorf("what is there (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestOnlyFatalErrorsEndTheDriver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.HandleError(t.Context(), fmt.Errorf("publishing: %w", kubeletplugin.ErrRecoverable), "soon")
	if f.fatalErr != nil {
		t.Errorf("it ends with %v", f.fatalErr)
	}
	f.HandleError(t.Context(), errors.New("no socket"), "serving")
	if f.fatalErr == nil || f.fatalErr.Error() != "serving: no socket" {
		t.Errorf("it ends with %v", f.fatalErr)
	}
}
