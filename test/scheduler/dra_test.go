// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

var (
	draGangs = flag.Int("dra-gangs", 60, "how many random gangs get their GPUs by resource claims")
	draKills = flag.Int("dra-kills", 3, "how often the scheduler is killed while it allocates GPUs to claims")
)

// pluginNode begins the names of nodes whose GPUs the device plugin gives out.
const pluginNode = "plugin"

// draSuite is a cluster in which GPUs are given out over dynamic resource allocation. Nothing runs
// for the drivers: only the scheduler looks at their objects, and the nodes are simulated.
type draSuite struct{ *suite }

func newDRASuite(t *testing.T) *draSuite {
	t.Helper()
	c, err := startCluster(strings.ToLower(t.Name()), idleNode)
	if err != nil {
		t.Fatal(err)
	}
	c.stopAfter(t)
	s := &draSuite{newSuiteIn(t, c)}
	s.addClass(v1.DRADriver, ptr.To(string(v1.ResourceGPU)))
	return s
}

// addClass adds the DeviceClass of all devices of a driver, with the driver's name.
func (s *draSuite) addClass(driver string, extendedResource *string) {
	s.Helper()
	_, err := s.kube.ResourceV1().DeviceClasses().Create(s.Context(), &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec: resourcev1.DeviceClassSpec{
			Selectors:            []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}},
			ExtendedResourceName: extendedResource,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

// addDRANodes adds nodes whose GPUs our driver gives out, as the agent and the driver describe
// them.
func (s *draSuite) addDRANodes(list ...machine) {
	s.Helper()
	for i := range list {
		list[i].dra = true
		s.publish(v1.DRADriver, list[i])
	}
	s.addNodes(list...)
}

// publish publishes the GPUs of a node as devices of a driver, in an order of their own, of which
// kube-scheduler takes the first ones. Those of our driver can be shared.
func (s *draSuite) publish(driver string, m machine) {
	s.Helper()
	name := s.node(m.name)
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1},
	}}
	for place := range m.gpus {
		i := (5*place + 3) % m.gpus
		device := resourcev1.Device{
			Name:       fmt.Sprintf("gpu-%d", place),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": {StringValue: new(s.gpu(m.name, i))}, "model": {StringValue: new(s.model())}},
			Capacity:   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: *resource.NewQuantity(gpuMemory<<20, resource.BinarySI)}},
		}
		if driver == v1.DRADriver {
			device.AllowMultipleAllocations = new(true)
			percent, one := resource.MustParse("100"), resource.MustParse("1")
			device.Capacity["percent"] = resourcev1.DeviceCapacity{Value: percent, RequestPolicy: &resourcev1.CapacityRequestPolicy{
				Default: &percent, ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: &one, Max: &percent, Step: &one},
			}}
			memory := device.Capacity["memory"]
			memory.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: resource.NewQuantity(0, resource.BinarySI), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: resource.NewQuantity(0, resource.BinarySI)}}
			device.Capacity["memory"] = memory
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	if _, err := s.kube.ResourceV1().ResourceSlices().Create(s.Context(), slice, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// createTemplate creates a template of claims for a number of whole GPUs of a driver.
func (s *draSuite) createTemplate(driver string, gpus int) (name string) {
	s.Helper()
	template, err := s.kube.ResourceV1().ResourceClaimTemplates(s.namespace).Create(s.Context(), &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "gpus-"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpus", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(gpus)},
		}}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return template.Name
}

// asking returns a Pod of a gang that asks for its GPUs with a claim of its own.
func (s *draSuite) asking(g gang, index int, template string) *corev1.Pod {
	pod := s.launcherOf(g, index)
	delete(pod.Spec.NodeSelector, v1.LabelGPUModel) // no agent labels the nodes of foreign drivers
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpus"}}
	return pod
}

// checkClaims fails the test unless each Pod that was bound has exactly the GPUs of its plan, which
// are those in its annotation, and no claim has GPUs without a Pod. It returns how many claims it
// has checked.
func (s *draSuite) checkClaims() (checked int) {
	s.Helper()
	uuids := s.publishedUUIDs()
	claims, err := s.kube.ResourceV1().ResourceClaims(s.namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	pods, err := s.kube.CoreV1().Pods(s.namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	allocated := map[string][]string{} // by Pod
	for i := range claims.Items {
		claim := &claims.Items[i]
		owner := metav1.GetControllerOf(claim)
		if claim.Status.Allocation == nil || owner == nil {
			continue
		}
		checked++
		for _, result := range claim.Status.Allocation.Devices.Results {
			allocated[owner.Name] = append(allocated[owner.Name], uuids[result.Pool+"/"+result.Device])
		}
		slices.Sort(allocated[owner.Name])
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		planned, err := plannedOf(pod)
		if pod.Spec.NodeName == "" || strings.Contains(pod.Spec.NodeName, pluginNode) {
			planned = nil
		}
		if diff := cmp.Diff(planned, allocated[pod.Name]); err != nil || diff != "" {
			s.Errorf("Pod %s on node %s: the plan and what its claims have (-plan +claims), error %v:\n%s", pod.Name, pod.Spec.NodeName, err, diff)
		}
		delete(allocated, pod.Name)
	}
	for name, gpus := range allocated {
		s.Errorf("GPUs %v are allocated for a Pod %s that does not exist", gpus, name)
	}
	return checked
}

// publishedUUIDs returns the UUIDs of all devices, by pool and name.
func (s *draSuite) publishedUUIDs() map[string]string {
	s.Helper()
	list, err := s.kube.ResourceV1().ResourceSlices().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	uuids := map[string]string{}
	for i := range list.Items {
		for _, device := range list.Items[i].Spec.Devices {
			uuids[list.Items[i].Spec.Pool.Name+"/"+device.Name] = *device.Attributes["uuid"].StringValue
		}
	}
	return uuids
}

// plannedOf returns the GPUs in a Pod's annotation.
func plannedOf(pod *corev1.Pod) ([]string, error) {
	text := pod.Annotations[inventory.AssignmentAnnotation]
	if text == "" {
		return nil, nil
	}
	assignment, err := inventory.ParseAssignment(text)
	if err != nil {
		return nil, err
	}
	var uuids []string
	for _, devices := range assignment.Containers {
		for _, ids := range devices {
			uuids = append(uuids, ids...)
		}
	}
	slices.Sort(uuids)
	return uuids, nil
}

// TestAGangGetsItsNVLinkGroupOverDRA: the first devices, which kube-scheduler would take, are of
// different groups.
func TestAGangGetsItsNVLinkGroupOverDRA(t *testing.T) {
	t.Parallel()
	s := newDRASuite(t)
	s.addDRANodes(machine{name: "a", gpus: 8, nvlink: 4})
	s.createPods(gang{name: "extended", pods: 2, gpus: 2})
	s.waitForBound(2, "extended")
	template := s.createTemplate(v1.DRADriver, 2)
	for index := range 2 {
		s.createPod(s.asking(gang{name: "claims", pods: 2}, index, template))
	}
	s.waitForBound(2, "claims")
	if checked := s.checkClaims(); checked != 4 {
		t.Errorf("%d claims have GPUs, want 4", checked)
	}
	s.createPods(gang{name: "late"})
	s.waitForRefusal("late", "GPU")
	s.deletePod("claims-0")
	s.waitForBound(1, "late")
	s.checkClaims()
}

// TestRandomGangsGetExactlyThePlannedGPUs over our driver and a foreign one, whose nodes have no
// agent, with Pods of three kinds: those with extended resources on nodes with the device plugin
// and without, and those with claims of their own.
func TestRandomGangsGetExactlyThePlannedGPUs(t *testing.T) {
	t.Parallel()
	const foreign = "gpu.example.com"
	s := newDRASuite(t)
	s.addClass(foreign, nil)
	s.addDRANodes(machines(6, machine{name: "ours", gpus: 8, nvlink: 4})...)
	s.addNodes(machines(2, machine{name: pluginNode, gpus: 8})...)
	for _, m := range machines(4, machine{name: "theirs", gpus: 8, foreign: true}) {
		s.publish(foreign, m)
		s.addNodes(m)
	}
	random := rand.New(rand.NewPCG(1, 2))
	templates := map[string][]string{}
	for _, driver := range []string{v1.DRADriver, foreign} {
		for gpus := 1; gpus <= 4; gpus++ {
			templates[driver] = append(templates[driver], s.createTemplate(driver, gpus))
		}
	}
	claims := 0
	for i := 0; i < *draGangs; {
		var gangs []gang
		// All of them must find room, whatever places the first of them leave.
		for room := map[string]int{"": 24, v1.DRADriver: 16, foreign: 20}; i < *draGangs; i++ {
			g := gang{name: fmt.Sprintf("random-%d", i), pods: 1 + random.IntN(3), gpus: 1 + random.IntN(3)}
			driver := []string{"", v1.DRADriver, foreign}[random.IntN(3)]
			if room[driver] -= g.pods * g.gpus; room[driver] < 0 {
				i++
				break
			}
			gangs = append(gangs, g)
			for index := range g.pods {
				if driver == "" {
					s.createPod(s.podOf(g, index))
				} else {
					s.createPod(s.asking(g, index, templates[driver][g.gpus-1]))
				}
			}
		}
		for _, g := range gangs {
			s.waitForBound(g.pods, g.name)
		}
		claims += s.checkClaims()
		s.endAll()
	}
	t.Logf("%d claims of %d gangs have exactly the GPUs of their plans", claims, *draGangs)
	if claims < *draGangs/2 {
		t.Errorf("only %d claims were checked", claims)
	}
}

// TestKillingTheSchedulerLeavesNoGPUBehindOverDRA: claims are made, allocated and reserved in several
// writes before a Pod is bound.
func TestKillingTheSchedulerLeavesNoGPUBehindOverDRA(t *testing.T) {
	t.Parallel()
	s := newDRASuite(t)
	s.addDRANodes(machines(4, machine{name: "n", gpus: 8, nvlink: 4})...)
	template := s.createTemplate(v1.DRADriver, 2)
	random := rand.New(rand.NewPCG(3, 4))
	for round := range *draKills {
		leader := s.startScheduler(s.namespace, nil)
		s.waitForLease(s.namespace)
		extended := gang{name: fmt.Sprintf("extended-%d", round), pods: 8, gpus: 2, scheduler: s.namespace}
		own := gang{name: fmt.Sprintf("own-%d", round), pods: 8, gpus: 2, scheduler: s.namespace}
		for index := range extended.pods {
			s.createPod(s.podOf(extended, index))
			s.createPod(s.asking(own, index, template))
		}
		writes := 1 + random.IntN(2*extended.pods+own.pods) // a claim and an allocation, or an allocation
		s.eventually("some claims have been written", func() (bool, string) {
			has := s.countWrites()
			return has >= writes, fmt.Sprintf("%d writes of %d", has, writes)
		})
		leader.kill()
		next := s.startScheduler(s.namespace, nil)
		s.waitForBound(extended.pods, extended.name)
		s.waitForBound(own.pods, own.name)
		if checked := s.checkClaims(); checked != extended.pods+own.pods {
			t.Errorf("%d claims have GPUs, want %d", checked, extended.pods+own.pods)
		}
		next.stop()
		s.endAll()
	}
}

// countWrites counts what has been written for claims: those of extended resources, and
// allocations.
func (s *draSuite) countWrites() (count int) {
	s.Helper()
	claims, err := s.kube.ResourceV1().ResourceClaims(s.namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range claims.Items {
		if claims.Items[i].Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "" {
			count++
		}
		if claims.Items[i].Status.Allocation != nil {
			count++
		}
	}
	return count
}

// endAll deletes all Pods and waits until no claim has any device.
func (s *draSuite) endAll() {
	s.Helper()
	if err := s.kube.CoreV1().Pods(s.namespace).DeleteCollection(s.Context(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{}); err != nil {
		s.Fatal(err)
	}
	s.eventually("all claims are gone", func() (bool, string) {
		claims, err := s.kube.ResourceV1().ResourceClaims(s.namespace).List(context.WithoutCancel(s.Context()), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(claims.Items) == 0, fmt.Sprintf("%d are there", len(claims.Items))
	})
}
