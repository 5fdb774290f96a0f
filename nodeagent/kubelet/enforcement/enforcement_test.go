// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/answers"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/mps"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

const percent = "falldio.com/gpu-percent"

func sharesOf(gpu string, amount int) (ids []string) {
	for number := range amount {
		ids = append(ids, share.ID(gpu, number))
	}
	return ids
}

func holds(pod, resource string, ids []string) podresources.Allocation {
	return podresources.Allocation{Namespace: "research", Pod: pod, Container: "gpu-task", Resource: resource, DeviceIDs: ids}
}

func pod(name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: name, UID: uid}}
}

// given is an answer for a Pod's container.
func given(uid types.UID, ids []string, variables ...string) map[answers.Key]answers.Answer {
	response := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"GPU_SHARE_PERCENT": "5"}}
	for _, variable := range variables {
		response.Envs[variable] = "x"
	}
	return map[answers.Key]answers.Answer{{Pod: uid, Container: "gpu-task", Resource: percent}: {DeviceIDs: ids, Response: response}}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	five := sharesOf("GPU-a", 5)
	held := []podresources.Allocation{holds("train", percent, five)}
	pods := []*corev1.Pod{pod("other", "uid-0"), pod("train", "uid-1")}
	says := func(enforcement string) []Statement {
		return []Statement{{types.NamespacedName{Namespace: "research", Name: "train"}, "gpu-task", "GPU-a", 5, enforcement}}
	}
	tests := map[string]struct {
		allocations []podresources.Allocation
		pods        []*corev1.Pod
		answers     map[answers.Key]answers.Answer
		want        []Statement
	}{
		"an answer without MPS":                     {held, pods, given("uid-1", five), says("none")},
		"an answer with MPS":                        {held, pods, given("uid-1", five, "CUDA_MPS_PIPE_DIRECTORY"), says("mps")},
		"an answer with a limit of the driver":      {held, pods, given("uid-1", five, "NVIDIA_GPU_MEMORY_LIMIT"), says("dmem")},
		"an answer with both":                       {held, pods, given("uid-1", five, "CUDA_MPS_PIPE_DIRECTORY", "NVIDIA_GPU_MEMORY_LIMIT"), says("mps+dmem")},
		"limits without a daemon are none":          {held, pods, given("uid-1", five, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), says("none")},
		"there is no answer":                        {held, pods, nil, says("unknown")},
		"the answer is for a Pod of the same name":  {held, pods, given("uid-2", five), says("unknown")},
		"the answer is about other shares":          {held, pods, given("uid-1", sharesOf("GPU-a", 4)), says("unknown")},
		"the Pod is not known yet":                  {held, nil, given("uid-1", five), says("unknown")},
		"a whole GPU needs no limits":               {[]podresources.Allocation{holds("train", "falldio.com/gpu", []string{"GPU-a"})}, pods, nil, nil},
		"a container without devices has no shares": {[]podresources.Allocation{holds("train", percent, nil)}, pods, nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Statements(percent, test.allocations, test.pods, test.answers)); diff != "" {
				t.Errorf("statements (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAClientOfADaemonThatIsGoneIsNotKnownToBeLimited(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	status := func(state mps.State, ago time.Duration) mps.Status {
		return mps.Status{State: state, Since: now.Add(-ago)}
	}
	tests := map[string]struct {
		given  string
		daemon mps.Status
		want   string
	}{
		"the daemon runs":                         {"mps", status(mps.Running, time.Hour), "mps"},
		"it is being restarted":                   {"mps", status(mps.Stopped, 29*time.Second), "mps"},
		"it is gone":                              {"mps", status(mps.Stopped, 30*time.Second), "unknown"},
		"this run of the agent knows no daemon":   {"mps", mps.Status{}, "unknown"},
		"what the driver limits does not need it": {"dmem", status(mps.Stopped, time.Hour), "dmem"},
		"of both limits one is left":              {"mps+dmem", status(mps.Stopped, time.Hour), "dmem"},
		"both limits while the daemon runs":       {"mps+dmem", status(mps.Running, time.Hour), "mps+dmem"},
		"without limits it makes no difference":   {"none", status(mps.Stopped, time.Hour), "none"},
		"a daemon that runs makes no difference":  {"none", status(mps.Running, time.Hour), "none"},
		"the unknown stays unknown":               {"unknown", status(mps.Running, time.Hour), "unknown"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			statement := Statement{Given: test.given}
			if got := statement.Now(test.daemon, now); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestAPodIsToldWhatIsKnown(t *testing.T) {
	t.Parallel()
	train, serve := types.NamespacedName{Namespace: "a", Name: "train"}, types.NamespacedName{Namespace: "b", Name: "serve"}
	got := ByPod([]Statement{
		{Pod: train, Container: "x", Given: inventory.EnforcementNone},
		{Pod: train, Container: "y", Given: inventory.EnforcementMPS},
		{Pod: train, Container: "z", Given: inventory.EnforcementUnknown},
		{Pod: serve, Container: "x", Given: inventory.EnforcementUnknown},
	})
	if diff := cmp.Diff(map[types.NamespacedName]map[string]string{train: {"x": "none", "y": "mps"}}, got); diff != "" {
		t.Errorf("by Pod (-want +got):\n%s", diff)
	}
}
