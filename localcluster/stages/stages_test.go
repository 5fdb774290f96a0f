// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var testConfig = Config{PodDuration: 10 * time.Second, Nodes: 7, ServerAddress: "127.0.0.1:1", NodeSelector: "type=kwok"}

func TestRenderGivesValidDocumentsWithoutLeftovers(t *testing.T) {
	rendered, err := Render(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(rendered), leftDelimiter+" ") {
		t.Errorf("a placeholder is left:\n%s", rendered)
	}
	kinds := map[string]int{}
	for document := range strings.SplitSeq(strings.TrimPrefix(string(rendered), "---\n"), "---\n") {
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		kinds[object.Kind]++
	}
	if diff := cmp.Diff(map[string]int{"KwokConfiguration": 1, "Stage": 13}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func TestRenderRefusesPodsWithoutDuration(t *testing.T) {
	if _, err := Render(Config{}); err == nil {
		t.Error("it rendered")
	}
}

func TestLeasesGetLongerWithTheNumberOfNodes(t *testing.T) {
	for nodes, want := range map[int]time.Duration{1: 8 * time.Second, 250: 10 * time.Second, 1000: 40 * time.Second, 5000: 200 * time.Second} {
		if got := LeaseDuration(nodes); got != want {
			t.Errorf("%d nodes: got %v, want %v", nodes, got, want)
		}
		if GracePeriod(nodes) <= LeaseDuration(nodes) {
			t.Errorf("%d nodes: a node is lost before its lease ends", nodes)
		}
	}
}

func TestNodesPlay(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		ready       corev1.ConditionStatus
		want        []string
	}{
		"a new node becomes ready":                       {nil, "", []string{"node-ready"}},
		"a ready node repeats its status":                {nil, corev1.ConditionTrue, []string{"node-heartbeat"}},
		"a lost node becomes ready again":                {nil, corev1.ConditionUnknown, []string{"node-ready"}},
		"an annotated node becomes not ready":            {map[string]string{AnnotationNotReady: "true"}, corev1.ConditionTrue, []string{"node-not-ready"}},
		"an annotated lost node becomes not ready":       {map[string]string{AnnotationNotReady: "true"}, corev1.ConditionUnknown, []string{"node-not-ready"}},
		"an annotated node stays not ready":              {map[string]string{AnnotationNotReady: "true"}, corev1.ConditionFalse, nil},
		"a node without its annotation is ready again":   {nil, corev1.ConditionFalse, []string{"node-ready"}},
		"an annotation with another value has no effect": {map[string]string{AnnotationNotReady: "no"}, corev1.ConditionTrue, []string{"node-heartbeat"}},
	}
	simulation := newSimulation(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
			if test.ready != "" {
				node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: test.ready}}
			}
			if diff := cmp.Diff(test.want, simulation.match(t, "Node", node)); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClaimsPlay(t *testing.T) {
	tests := map[string]struct {
		claim corev1.PersistentVolumeClaim
		want  []string
	}{
		"a claim without a class is bound":          {corev1.PersistentVolumeClaim{}, []string{"claim-bind"}},
		"a claim with a class is bound":             {corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("nfs")}}, []string{"claim-bind"}},
		"a claim with the class \"\" stays unbound": {corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("")}}, nil},
		"a claim that is bound stays as it is":      {corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "localcluster"}}, nil},
		"a claim that is deleted goes":              {corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}, []string{"claim-delete"}},
	}
	simulation := newSimulation(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, simulation.match(t, "PersistentVolumeClaim", &test.claim)); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASecondReportWithinTheShortestDelayDoesNotChangeTheNode(t *testing.T) {
	simulation := newSimulation(t)
	heartbeat := simulation.named(t, "node-heartbeat")
	delay := time.Duration(heartbeat.Spec.Delay.DurationMilliseconds) * time.Millisecond
	first := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	reportAfter := func(since time.Duration, zone *time.Location) string {
		simulation.clock = first.Add(since).In(zone).Format(time.RFC3339Nano)
		return simulation.execute(t, heartbeat.Spec.Next.StatusTemplate, &corev1.Node{})
	}
	report := reportAfter(0, time.UTC)
	if !strings.Contains(report, `lastHeartbeatTime: "2026-07-01T10:00:00Z"`) {
		t.Errorf("a report at 10:00 is\n%s", report)
	}
	if diff := cmp.Diff(report, reportAfter(delay-time.Millisecond, time.FixedZone("CEST", 7200))); diff != "" {
		t.Errorf("another report before the delay is over changes the Node (-first +second):\n%s", diff)
	}
	if report == reportAfter(delay, time.UTC) {
		t.Error("the next report does not change the Node, so that none would follow")
	}
}

func TestPodsEnd(t *testing.T) {
	type end struct {
		Phase    corev1.PodPhase
		ExitCode int32
		Reason   string
	}
	succeeded := &end{corev1.PodSucceeded, 0, "Completed"}
	failed := func(code int32) *end { return &end{corev1.PodFailed, code, "Error"} }
	tests := map[string]struct {
		labels      map[string]string
		annotations map[string]string
		policy      corev1.RestartPolicy
		want        *end // nil: the Pod runs forever
	}{
		"a GPUTask's Pod succeeds by itself":            {task("0"), nil, corev1.RestartPolicyNever, succeeded},
		"another Pod runs forever":                      {nil, nil, corev1.RestartPolicyNever, nil},
		"another Pod with a duration succeeds":          {nil, sim(AnnotationDuration, "1m30s"), corev1.RestartPolicyNever, succeeded},
		"a Pod may run forever":                         {task("0"), sim(AnnotationDuration, "forever"), corev1.RestartPolicyNever, nil},
		"a Pod that always restarts runs forever":       {task("0"), sim(AnnotationDuration, "1s"), corev1.RestartPolicyAlways, nil},
		"a Pod fails with its exit code":                {task("0"), sim(AnnotationExitCode, "137"), corev1.RestartPolicyNever, failed(137)},
		"exit code 0 succeeds":                          {task("0"), sim(AnnotationExitCode, "0"), corev1.RestartPolicyNever, succeeded},
		"the first of two failing attempts fails":       {task("0"), sim(AnnotationFailAttempts, "2"), corev1.RestartPolicyNever, failed(1)},
		"the second of two failing attempts fails":      {task("1"), sim(AnnotationFailAttempts, "2"), corev1.RestartPolicyNever, failed(1)},
		"the attempt after them succeeds":               {task("2"), sim(AnnotationFailAttempts, "2"), corev1.RestartPolicyNever, succeeded},
		"a Pod without an attempt is at the first":      {nil, sim(AnnotationDuration, "1s", AnnotationFailAttempts, "1"), corev1.RestartPolicyNever, failed(1)},
		"a failing attempt has the exit code":           {task("0"), sim(AnnotationFailAttempts, "1", AnnotationExitCode, "3"), corev1.RestartPolicyNever, failed(3)},
		"an attempt after it succeeds despite the code": {task("1"), sim(AnnotationFailAttempts, "1", AnnotationExitCode, "3"), corev1.RestartPolicyNever, succeeded},
	}
	simulation := newSimulation(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := boundPod(test.labels, test.annotations, test.policy)
			running := simulation.play(t, pod)
			if running.Status.Phase != corev1.PodRunning || running.Status.StartTime == nil {
				t.Fatalf("the Pod does not run: %+v", running.Status)
			}
			if test.want == nil {
				if names := simulation.match(t, "Pod", running); len(names) > 0 {
					t.Errorf("the Pod would play %v", names)
				}
				return
			}
			over := simulation.play(t, running)
			terminated := over.Status.ContainerStatuses[0].State.Terminated
			got := &end{over.Status.Phase, terminated.ExitCode, terminated.Reason}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
			if names := simulation.match(t, "Pod", over); len(names) > 0 {
				t.Errorf("the Pod that has ended would play %v", names)
			}
		})
	}
}

func TestAPodsStatusIsLikeTheKubelets(t *testing.T) {
	simulation := newSimulation(t)
	running := simulation.play(t, boundPod(task("0"), nil, corev1.RestartPolicyNever))
	container := running.Status.ContainerStatuses[0]
	if !container.Ready || container.State.Running == nil || running.Status.HostIP == "" || running.Status.PodIP == "" {
		t.Errorf("status %+v", running.Status)
	}
	wantConditions(t, running, map[corev1.PodConditionType]string{
		"PodScheduled": "True", "PodReadyToStartContainers": "True", "Initialized": "True", "ContainersReady": "True", "Ready": "True",
	})

	running.Status.StartTime = new(metav1.NewTime(running.Status.StartTime.Add(-time.Minute))) // it was stuck
	over := simulation.play(t, running)
	container = over.Status.ContainerStatuses[0]
	if container.Ready || container.State.Running != nil || container.State.Terminated == nil {
		t.Fatalf("container %+v", container)
	}
	// Times lose their fractions of a second in JSON.
	if got, want := container.State.Terminated.StartedAt.Time, running.Status.ContainerStatuses[0].State.Running.StartedAt.Truncate(time.Second); !got.Equal(want) {
		t.Errorf("started at %v, want %v", got, want)
	}
	if container.State.Terminated.FinishedAt.IsZero() {
		t.Error("it has no end")
	}
	wantConditions(t, over, map[corev1.PodConditionType]string{
		"PodScheduled": "True", "PodReadyToStartContainers": "False", "Initialized": "True PodCompleted",
		"ContainersReady": "False PodCompleted", "Ready": "False PodCompleted",
	})
}

func TestAnnotationsWithoutSenseFailThePod(t *testing.T) {
	tests := map[string]map[string]string{
		"a duration without a unit":   sim(AnnotationDuration, "5"),
		"a duration in words":         sim(AnnotationDuration, "5 apples"),
		"a negative duration":         sim(AnnotationDuration, "-5s"),
		"an empty duration":           sim(AnnotationDuration, ""),
		"a duration beyond all":       sim(AnnotationDuration, "9999999999h"),
		"an exit code beyond 255":     sim(AnnotationExitCode, "256"),
		"an exit code in words":       sim(AnnotationExitCode, "one"),
		"a negative number of tries":  sim(AnnotationFailAttempts, "-1"),
		"a number of tries in halves": sim(AnnotationFailAttempts, "1.5"),
		"a refusal that is none":      sim(AnnotationRefusal, "NoReason"),
		"stuck in what is nothing":    sim(AnnotationStuckIn, "mud"),
		"stuck for ever, for a while": sim(AnnotationStuckFor, DurationForever),
	}
	simulation := newSimulation(t)
	for name, annotations := range tests {
		t.Run(name, func(t *testing.T) {
			pod := simulation.play(t, boundPod(nil, annotations, corev1.RestartPolicyNever))
			if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "InvalidSimulation" || pod.Status.Message == "" {
				t.Errorf("status %+v", pod.Status)
			}
		})
	}
}

func TestADeletedPodIsDeletedWhateverItDoes(t *testing.T) {
	simulation := newSimulation(t)
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded} {
		pod := boundPod(task("0"), sim(AnnotationFinishAt, "2026-07-01T12:00:00Z"), corev1.RestartPolicyNever)
		pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		pod.Status.Phase = phase
		if diff := cmp.Diff([]string{"pod-delete"}, simulation.match(t, "Pod", pod)); diff != "" {
			t.Errorf("%s: stages (-want +got):\n%s", phase, diff)
		}
	}
}

func TestNodesRefusePods(t *testing.T) {
	simulation := newSimulation(t)
	for _, reason := range Refusals() {
		pod := simulation.play(t, boundPod(task("0"), sim(AnnotationRefusedBy, "m,n", AnnotationRefusal, reason), corev1.RestartPolicyNever))
		want := corev1.PodStatus{
			Phase: corev1.PodFailed, Reason: reason, Message: "Pod was rejected: " + refusals[reason], StartTime: pod.Status.StartTime,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
		}
		if diff := cmp.Diff(want, pod.Status); diff != "" || pod.Status.StartTime == nil {
			t.Errorf("%s: status (-want +got):\n%s", reason, diff)
		}
		if names := simulation.match(t, "Pod", pod); len(names) > 0 {
			t.Errorf("%s: the Pod that was refused would play %v", reason, names)
		}
	}
	pod := simulation.play(t, boundPod(task("0"), sim(AnnotationRefusedBy, EveryNode), corev1.RestartPolicyNever))
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != DefaultRefusal {
		t.Errorf("refused by every node: status %+v", pod.Status)
	}
	if pod = simulation.play(t, boundPod(task("0"), sim(AnnotationRefusedBy, "m,nn"), corev1.RestartPolicyNever)); pod.Status.Phase != corev1.PodRunning {
		t.Errorf("refused by others: status %+v", pod.Status)
	}
}

func TestPodsAreStuck(t *testing.T) {
	simulation := newSimulation(t)
	tests := map[string]struct{ sandbox, reason string }{
		StuckInMount: {"False", "ContainerCreating"}, StuckInImage: {"True", "ImagePullBackOff"},
	}
	for in, want := range tests {
		pod := simulation.play(t, boundPod(task("0"), sim(AnnotationStuckOn, "n", AnnotationStuckIn, in), corev1.RestartPolicyNever))
		waiting := pod.Status.ContainerStatuses[0].State.Waiting
		if pod.Status.Phase != corev1.PodPending || pod.Status.HostIP == "" || waiting == nil || waiting.Reason != want.reason {
			t.Errorf("%s: status %+v", in, pod.Status)
		}
		wantConditions(t, pod, map[corev1.PodConditionType]string{
			"PodScheduled": "True", "PodReadyToStartContainers": want.sandbox, "Initialized": "True",
			"ContainersReady": "False ContainersNotReady", "Ready": "False ContainersNotReady",
		})
		if names := simulation.match(t, "Pod", pod); len(names) > 0 {
			t.Errorf("%s: the Pod that is stuck would play %v", in, names)
		}
	}
	if pod := simulation.play(t, boundPod(task("0"), sim(AnnotationStuckOn, "m"), corev1.RestartPolicyNever)); pod.Status.Phase != corev1.PodRunning {
		t.Errorf("stuck elsewhere: status %+v", pod.Status)
	}
}

// TestPodsThatAreStuckSayWhy: their Events are those of a kubelet.
func TestPodsThatAreStuckSayWhy(t *testing.T) {
	simulation := newSimulation(t)
	volume := func(source corev1.VolumeSource) []corev1.Volume {
		return []corev1.Volume{{Name: "settings", VolumeSource: source}, {Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	configMap := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "train"}}}
	secret := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "token"}}
	tests := map[string]struct {
		in              string
		volumes         []corev1.Volume
		reason, message string
	}{
		"a ConfigMap is missing": {StuckInMount, volume(configMap), "FailedMount", `MountVolume.SetUp failed for volume "settings" : configmap "train" not found`},
		"a Secret is missing":    {StuckInMount, volume(secret), "FailedMount", `MountVolume.SetUp failed for volume "settings" : secret "token" not found`},
		"no volume is named":     {StuckInMount, nil, "FailedMount", `MountVolume.SetUp failed for volume "data" : configmap "data" not found`},
		"an image is missing": {StuckInImage, nil, "Failed",
			`Failed to pull image "cuda": rpc error: code = NotFound desc = failed to pull and unpack image "cuda": failed to resolve reference "cuda": cuda: not found`},
	}
	for name, tc := range tests {
		pod := boundPod(task("0"), sim(AnnotationStuckOn, "n", AnnotationStuckIn, tc.in), corev1.RestartPolicyNever)
		pod.Spec.Volumes = tc.volumes
		event := simulation.applied(t, simulation.named(t, "pod-stick"), pod)
		if event.Type != corev1.EventTypeWarning || event.Reason != tc.reason || event.Message != tc.message {
			t.Errorf("%s: the Event is %s %s: %s", name, event.Type, event.Reason, event.Message)
		}
		if event.InvolvedObject.UID != pod.UID || event.Namespace != pod.Namespace || event.Source.Host != "n" || event.LastTimestamp.IsZero() {
			t.Errorf("%s: the Event is %+v", name, event)
		}
	}
}

func TestPodsSaveTheirWorkWhenTheyAreAskedTo(t *testing.T) {
	const earlier, asked, later = "2026-07-01T12:00:00Z", "2026-07-01T12:00:01Z", "2026-07-01T12:00:02Z"
	tests := map[string]struct {
		annotations map[string]string
		want        string
	}{
		"asked for the first time": {sim(v1.AnnotationCheckpointTimeout, "60", v1.AnnotationCheckpointRequested, asked), "pod-save"},
		"asked again":              {sim(v1.AnnotationCheckpointTimeout, "60", v1.AnnotationCheckpointRequested, asked, v1.AnnotationLastCheckpoint, earlier), "pod-save"},
		"it has saved since":       {sim(v1.AnnotationCheckpointTimeout, "60", v1.AnnotationCheckpointRequested, asked, v1.AnnotationLastCheckpoint, later), "pod-finish"},
		"it has saved at once":     {sim(v1.AnnotationCheckpointTimeout, "60", v1.AnnotationCheckpointRequested, asked, v1.AnnotationLastCheckpoint, asked), "pod-finish"},
		"it was not asked":         {sim(v1.AnnotationCheckpointTimeout, "60"), "pod-finish"},
		"it can't save":            {sim(v1.AnnotationCheckpointRequested, asked), "pod-finish"},
		"it does not answer":       {sim(v1.AnnotationCheckpointTimeout, "60", v1.AnnotationCheckpointRequested, asked, AnnotationCheckpointTime, DurationForever), "pod-finish"},
	}
	simulation := newSimulation(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			running := simulation.play(t, boundPod(task("0"), test.annotations, corev1.RestartPolicyNever))
			if diff := cmp.Diff([]string{test.want}, simulation.match(t, "Pod", running)); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
		})
	}
	running := simulation.play(t, boundPod(task("0"), sim(v1.AnnotationCheckpointTimeout, "60", v1.AnnotationCheckpointRequested, asked), corev1.RestartPolicyNever))
	once := simulation.play(t, running)
	if names := simulation.match(t, "Pod", once); len(names) != 1 || names[0] != "pod-finish" {
		t.Errorf("the Pod that has saved its work would play %v", names)
	}
	once.Annotations[v1.AnnotationCheckpointRequested] = "2999-01-01T00:00:00Z"
	twice := simulation.play(t, once)
	times := strings.Split(twice.Annotations[AnnotationCheckpoints], ",")
	if len(times) != 2 || times[0] != once.Annotations[AnnotationCheckpoints] {
		t.Errorf("it has saved its work at %v, before at %s", times, once.Annotations[AnnotationCheckpoints])
	}
}

func TestPodsThatAreStuckForAWhileStart(t *testing.T) {
	simulation := newSimulation(t)
	stuck := simulation.play(t, boundPod(task("0"), sim(AnnotationStuckOn, EveryNode, AnnotationStuckFor, "1m"), corev1.RestartPolicyNever))
	if stuck.Status.Phase != corev1.PodPending {
		t.Fatalf("it is not stuck: status %+v", stuck.Status)
	}
	until, err := time.Parse(time.RFC3339Nano, stuck.Annotations[AnnotationStuckUntil])
	if left := time.Until(until); err != nil || left < 50*time.Second || left > time.Minute {
		t.Errorf("it is to start at %q, in %v: %v", stuck.Annotations[AnnotationStuckUntil], left, err)
	}
	started := simulation.play(t, simulation.play(t, stuck))
	if started.Status.Phase != corev1.PodRunning || started.Annotations[AnnotationFinishAt] == "" || !started.Status.StartTime.Equal(stuck.Status.StartTime) {
		t.Errorf("it has not started: %v, status %+v", started.Annotations, started.Status)
	}
}

func wantConditions(t *testing.T, pod *corev1.Pod, want map[corev1.PodConditionType]string) {
	t.Helper()
	got := map[corev1.PodConditionType]string{}
	for _, condition := range pod.Status.Conditions {
		got[condition.Type] = strings.TrimSpace(string(condition.Status) + " " + condition.Reason)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func boundPod(labels, annotations map[string]string, policy corev1.RestartPolicy) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "default", UID: "u", ResourceVersion: "1", Labels: labels, Annotations: annotations,
		},
		Spec: corev1.PodSpec{NodeName: "n", RestartPolicy: policy, Containers: []corev1.Container{{Name: "gpu-task", Image: "cuda"}}},
		Status: corev1.PodStatus{
			Phase:      corev1.PodPending,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
		},
	}
}

func task(attempt string) map[string]string {
	return map[string]string{v1.LabelTask: "train", v1.LabelAttempt: attempt}
}

func sim(keysAndValues ...string) map[string]string {
	annotations := map[string]string{}
	for i := 0; i < len(keysAndValues); i += 2 {
		annotations[keysAndValues[i]] = keysAndValues[i+1]
	}
	return annotations
}
