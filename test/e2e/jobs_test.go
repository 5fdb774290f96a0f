// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// tryToCreate returns why the API server would refuse to create an object with this spec.
func (s *suite) tryToCreate(t *testing.T, resource schema.GroupVersionResource, kind, specText string) error {
	t.Helper()
	spec := map[string]any{}
	if err := yaml.Unmarshal([]byte(specText), &spec); err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind, "spec": spec}}
	object.SetGenerateName("either-")
	_, err := s.cluster.dynamic.Resource(resource).Namespace(s.namespace).
		Create(t.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
	return err
}

var (
	jobs  = batchv1.SchemeGroupVersion.WithResource("jobs")
	tasks = v1.TaskKind().GroupVersion().WithResource("gputasks")
)

// numbers returns a list of so many numbers, from 1 on.
func numbers(count int) string {
	var list strings.Builder
	for i := range count {
		list.WriteString(strconv.Itoa(i+1) + ",")
	}
	return list.String()
}

// TestWhatAJobRefusesATaskRefuses has the cases of batch/v1's own validation, where a task has the same field.
func TestWhatAJobRefusesATaskRefuses(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const template = `template: {spec: {restartPolicy: Never, initContainers: [{name: fetch, image: x}], containers: [{name: main, image: x}]}}`
	const noSuchOrder = `must be numbers and ranges of indexes in increasing order, separated by commas, for example "0,2-4"`
	const codes = "spec.failureRules[0].onExitCodes"
	success := func(rule string) (job, task string) {
		return `completionMode: Indexed, completions: 5, parallelism: 5, successPolicy: {rules: [` + rule + `]}`,
			`replicas: 5, successPolicy: {rules: [` + rule + `]}`
	}
	failure := func(rule string) (job, task string) {
		return `podFailurePolicy: {rules: [` + strings.ReplaceAll(rule, "FailTask", "FailJob") + `]}`, `failureRules: [` + rule + `]`
	}
	exitCodes := func(condition string) (job, task string) {
		return failure(`{action: FailTask, onExitCodes: {` + condition + `}}`)
	}
	both := func(fields string) (job, task string) { return fields, fields }
	type spec func() (job, task string)
	of := func(fields func(string) (job, task string), argument string) spec {
		return func() (job, task string) { return fields(argument) }
	}
	pair := func(job, task string) spec { return func() (string, string) { return job, task } }
	tests := map[string]struct {
		spec spec
		want string // part of the task's error; empty if both are accepted
		// differs says why one of them is refused and the other one is not.
		differs string
	}{
		"some indexes and a count":         {spec: of(success, `{succeededIndexes: "0,2-4", succeededCount: 3}`)},
		"all indexes":                      {spec: of(success, `{succeededIndexes: "0-4", succeededCount: 5}`)},
		"a count":                          {spec: of(success, `{succeededCount: 5}`)},
		"no rules of success":              {spec: of(success, ``), want: `spec.successPolicy.rules: Invalid value: 0: spec.successPolicy.rules in body should have at least 1 items`},
		"a rule of success about nothing":  {spec: of(success, `{}`), differs: "it is about all Pods, as a rule with a role only is about all of that"},
		"eleven rules of success":          {spec: of(success, strings.Repeat(`{succeededCount: 1},`, 11)), want: `spec.successPolicy.rules: Too many: 11`, differs: "a Job has up to 20"},
		"no indexes but words":             {spec: of(success, `{succeededIndexes: invalid-format}`), want: noSuchOrder},
		"an index that no Pod has":         {spec: of(success, `{succeededIndexes: "5"}`), want: `spec.successPolicy.rules: Invalid value: each index in succeededIndexes must be less than the number of Pods of the role, or of the task: indexes begin with 0`},
		"a range that no Pods have":        {spec: of(success, `{succeededIndexes: "3-7"}`), want: `each index in succeededIndexes must be less than the number of Pods`},
		"ranges that decrease":             {spec: of(success, `{succeededIndexes: "3-1"}`), want: noSuchOrder},
		"a range of one":                   {spec: of(success, `{succeededIndexes: "1-1"}`), want: noSuchOrder},
		"indexes that decrease":            {spec: of(success, `{succeededIndexes: "2,0"}`), want: noSuchOrder},
		"an index twice":                   {spec: of(success, `{succeededIndexes: "0-2,2"}`), want: noSuchOrder},
		"indexes with spaces":              {spec: of(success, `{succeededIndexes: "0, 2"}`), want: noSuchOrder},
		"a range without its start":        {spec: of(success, `{succeededIndexes: "-1"}`), want: noSuchOrder},
		"a range without its end":          {spec: of(success, `{succeededIndexes: "1-"}`), want: noSuchOrder},
		"a range with two ends":            {spec: of(success, `{succeededIndexes: "1-2-3"}`), want: noSuchOrder},
		"indexes with an empty one":        {spec: of(success, `{succeededIndexes: "1,,2"}`), want: noSuchOrder},
		"more than there are":              {spec: of(success, `{succeededCount: 6}`), want: `spec.successPolicy.rules: Invalid value: succeededCount must not be greater than the number of Pods of the role, or of the task: so many can't succeed`},
		"more than are listed":             {spec: of(success, `{succeededIndexes: "0-1", succeededCount: 3}`), want: `spec.successPolicy.rules[0].succeededCount: Invalid value: must not be greater than the number of indexes in succeededIndexes: so many can't succeed`},
		"none":                             {spec: of(success, `{succeededCount: 0}`), want: `spec.successPolicy.rules[0].succeededCount: Invalid value: 0`, differs: "so many have succeeded before the task begins"},
		"fewer than none":                  {spec: of(success, `{succeededCount: -1}`), want: `spec.successPolicy.rules[0].succeededCount: Invalid value: -1`},
		"an index that an array lacks":     {spec: pair(`completionMode: Indexed, completions: 8, parallelism: 2, successPolicy: {rules: [{succeededIndexes: "8"}]}`, `completions: 8, replicas: 2, successPolicy: {rules: [{succeededIndexes: "8"}]}`), want: `each index in succeededIndexes must be less than the number of Pods`},
		"an index that an array will have": {spec: pair(`completionMode: Indexed, completions: 8, parallelism: 2, successPolicy: {rules: [{succeededIndexes: "7"}]}`, `completions: 8, replicas: 2, successPolicy: {rules: [{succeededIndexes: "7"}]}`)},

		"exit codes":                            {spec: of(exitCodes, `operator: In, values: [1, 42]`)},
		"negative exit codes, of Windows":       {spec: of(exitCodes, `operator: In, values: [-1073741510]`)},
		"an init container's exit code":         {spec: of(exitCodes, `containerName: fetch, operator: In, values: [1]`)},
		"a container's exit code":               {spec: of(exitCodes, `containerName: main, operator: NotIn, values: [1]`)},
		"an unknown container's exit code":      {spec: of(exitCodes, `containerName: trainer, operator: In, values: [1]`), want: `spec.failureRules: Invalid value: onExitCodes.containerName must be a container or an init container of the template, or gpu-task if that has no containers; leave it out for any container`},
		"an unknown operator":                   {spec: of(exitCodes, `operator: Is, values: [1]`), want: codes + `.operator: Unsupported value: "Is"`},
		"no exit codes":                         {spec: of(exitCodes, `operator: In, values: []`), want: codes + `.values: Invalid value: 0`},
		"too many exit codes":                   {spec: of(exitCodes, `operator: In, values: [`+numbers(256)+`]`), want: codes + `.values: Too many: 256`},
		"exit code 0":                           {spec: of(exitCodes, `operator: In, values: [0, 1]`), want: codes + `.values: Invalid value: must not contain 0 with the operator In: a container with that exit code has not failed`},
		"exit codes other than 0":               {spec: of(exitCodes, `operator: NotIn, values: [0, 1]`)},
		"an exit code twice":                    {spec: of(exitCodes, `operator: In, values: [1, 1]`), want: codes + `.values[1]: Duplicate value: 1`},
		"exit codes that decrease":              {spec: of(exitCodes, `operator: In, values: [2, 1]`), differs: "their order does not matter"},
		"a condition":                           {spec: of(failure, `{action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}`)},
		"a condition with a domain":             {spec: of(failure, `{action: Ignore, onPodConditions: [{type: example.com/Broken, status: "True"}]}`)},
		"a condition without a type":            {spec: of(failure, `{action: Ignore, onPodConditions: [{type: "", status: "True"}]}`), want: `spec.failureRules[0].onPodConditions[0].type: Invalid value: "": must be the type of a condition of Pods, for example "DisruptionTarget"`},
		"a condition in words":                  {spec: of(failure, `{action: Ignore, onPodConditions: [{type: Invalid Condition Type, status: "True"}]}`), want: `spec.failureRules[0].onPodConditions[0].type: Invalid value: "Invalid Condition Type": must be the type of a condition`},
		"a condition in an unknown state":       {spec: of(failure, `{action: Ignore, onPodConditions: [{type: Ready, status: Maybe}]}`), want: `spec.failureRules[0].onPodConditions[0].status: Unsupported value: "Maybe"`},
		"too many conditions":                   {spec: of(failure, `{action: Ignore, onPodConditions: [`+strings.Repeat(`{type: Ready, status: "True"},`, 21)+`]}`), want: `spec.failureRules[0].onPodConditions: Too many: 21`},
		"too many failure rules":                {spec: of(failure, strings.Repeat(`{action: Ignore, onPodConditions: [{type: Ready, status: "True"}]},`, 21)), want: `spec.failureRules: Too many: 21`},
		"a failure rule about nothing":          {spec: of(failure, `{action: Ignore}`), want: `spec.failureRules[0]: Invalid value: exactly one of onExitCodes, onPodConditions and onReasons must be set`},
		"a failure rule about two things":       {spec: of(failure, `{action: Ignore, onExitCodes: {operator: In, values: [1]}, onPodConditions: [{type: Ready, status: "True"}]}`), want: `exactly one of`},
		"an unknown action":                     {spec: of(failure, `{action: Retry, onExitCodes: {operator: In, values: [1]}}`), want: `spec.failureRules[0].action: Unsupported value: "Retry"`},
		"an index that fails without its limit": {spec: of(failure, `{action: FailIndex, onExitCodes: {operator: In, values: [1]}}`), want: `spec.failureRules: Invalid value: the action FailIndex needs backoffLimitPerIndex`},
		"failure rules beside OnFailure": {
			spec: pair(`podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [1]}}]}, template: {spec: {restartPolicy: OnFailure, containers: [{name: main, image: x}]}}`,
				`failureRules: [{action: Ignore, onExitCodes: {operator: In, values: [1]}}], template: {spec: {restartPolicy: OnFailure, containers: [{name: main, image: x}]}}`),
			differs: "a Pod can fail all the same: it can be evicted",
		},

		"failed indexes":                     {spec: of(both, `completions: 5, backoffLimitPerIndex: 1, maxFailedIndexes: 5`)},
		"more failed indexes than there are": {spec: of(both, `completions: 5, backoffLimitPerIndex: 1, maxFailedIndexes: 6`), want: `spec.maxFailedIndexes: Invalid value: must not be greater than completions, the number of indexes`},
		"failed indexes without their limit": {spec: of(both, `completions: 5, maxFailedIndexes: 1`), want: `spec.maxFailedIndexes: Invalid value: needs backoffLimitPerIndex`},
		"fewer failed indexes than none":     {spec: of(both, `completions: 5, backoffLimitPerIndex: 1, maxFailedIndexes: -1`), want: `spec.maxFailedIndexes: Invalid value: -1`},
		"fewer restarts of an index":         {spec: of(both, `completions: 5, backoffLimitPerIndex: -1`), want: `spec.backoffLimitPerIndex: Invalid value: -1`},
		"fewer restarts than none":           {spec: of(both, `backoffLimit: -1`), want: `spec.backoffLimit: Invalid value: -1`},
		"a deadline in the past":             {spec: of(both, `activeDeadlineSeconds: -1`), want: `spec.activeDeadlineSeconds: Invalid value: -1`},
		"a deadline at once":                 {spec: of(both, `activeDeadlineSeconds: 0`), want: `spec.activeDeadlineSeconds: Invalid value: 0`, differs: "such a task would fail before it begins"},
		"deletion before the end":            {spec: of(both, `ttlSecondsAfterFinished: -1`), want: `spec.ttlSecondsAfterFinished: Invalid value: -1`},
		"fewer completions than none":        {spec: of(both, `completions: -1`), want: `spec.completions: Invalid value: -1`},
		"no completions":                     {spec: of(both, `completions: 0`), want: `spec.completions: Invalid value: 0`, differs: "there is nothing to do"},
		"fewer Pods than none":               {spec: pair(`parallelism: -1`, `replicas: -1`), want: `spec.replicas: Invalid value: -1`},
		"no Pods":                            {spec: pair(`parallelism: 0`, `replicas: 0`), want: `spec.replicas: Invalid value: 0`, differs: "such a Job waits until it gets some: that is suspend"},
		"Pods that never end":                {spec: of(both, `template: {spec: {restartPolicy: Always, containers: [{name: main, image: x}]}}`), want: `spec.template.spec.restartPolicy: Invalid value: must be Never or OnFailure`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job, task := tc.spec()
			for _, spec := range []*string{&job, &task} {
				if *spec = "{" + *spec + "}"; !strings.Contains(*spec, "template:") {
					*spec = strings.TrimSuffix(*spec, "}") + ", " + template + "}"
				}
			}
			if strings.Contains(job, "backoffLimitPerIndex") || strings.Contains(job, "maxFailedIndexes") {
				job = strings.TrimSuffix(job, "}") + ", completionMode: Indexed}"
			}
			checkRefusal(t, s.tryToCreate(t, tasks, "GPUTask", task), tc.want)
			err := s.tryToCreate(t, jobs, "Job", job)
			if same := (err != nil) == (tc.want != ""); same != (tc.differs == "") {
				t.Errorf("of a Job: %v; the reason for a difference: %q", err, tc.differs)
			}
		})
	}
}

// TestFailureRulesNameContainersOfTheirTemplate is about roles, which Jobs do not have.
func TestFailureRulesNameContainersOfTheirTemplate(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const unknown = "onExitCodes.containerName must be a container or an init container of the template"
	rule := func(container string) string {
		return fmt.Sprintf(`failureRules: [{action: FailTask, onExitCodes: {containerName: %s, operator: In, values: [1]}}]`, container)
	}
	template := func(container string) string {
		return fmt.Sprintf(`template: {spec: {containers: [{name: %s, image: x}]}}`, container)
	}
	for name, tc := range map[string]struct{ spec, want string }{
		"gpu-task, if there is no template":               {`{` + rule("gpu-task") + `}`, ""},
		"gpu-task, if the template has no containers":     {`{` + rule("gpu-task") + `, template: {spec: {hostNetwork: true}}}`, ""},
		"no other, if there is no template":               {`{` + rule("main") + `}`, "spec.failureRules: Invalid value: " + unknown},
		"not gpu-task, if the only container has a name":  {`{` + rule("gpu-task") + `, ` + template("main") + `}`, "spec.failureRules: Invalid value: " + unknown},
		"a role's rule, of its own template":              {`{` + template("a") + `, roles: [{name: r, ` + rule("b") + `, ` + template("b") + `}]}`, ""},
		"a role's rule, not of the template it replaces":  {`{` + template("a") + `, roles: [{name: r, ` + rule("a") + `, ` + template("b") + `}]}`, "spec.roles: Invalid value: " + unknown},
		"a role's rule, of the task's template":           {`{` + template("a") + `, roles: [{name: r, ` + rule("a") + `}]}`, ""},
		"the task's rule, of all roles' templates":        {`{` + rule("a") + `, ` + template("a") + `, roles: [{name: r}, {name: s, ` + template("a") + `}]}`, ""},
		"the task's rule, not of one role's template":     {`{` + rule("a") + `, ` + template("a") + `, roles: [{name: r}, {name: s, ` + template("b") + `}]}`, "spec.roles: Invalid value: " + unknown},
		"the task's rule, which a role replaces":          {`{` + rule("a") + `, ` + template("a") + `, roles: [{name: r}, {name: s, ` + rule("b") + `, ` + template("b") + `}]}`, ""},
		"success of a role's index":                       {`{roles: [{name: a, replicas: 2}, {name: b}], successPolicy: {rules: [{role: a, succeededIndexes: "1"}]}}`, ""},
		"success of an index that a role lacks":           {`{roles: [{name: a, replicas: 2}, {name: b}], successPolicy: {rules: [{role: b, succeededIndexes: "1"}]}}`, "each index in succeededIndexes must be less than the number of Pods"},
		"success of more Pods than a role has":            {`{roles: [{name: a, replicas: 2}, {name: b}], successPolicy: {rules: [{role: a, succeededCount: 3}]}}`, "succeededCount must not be greater than the number of Pods"},
		"success of all Pods of all roles":                {`{roles: [{name: a, replicas: 2}, {name: b}], successPolicy: {rules: [{succeededCount: 3}]}}`, ""},
		"success of as many as an elastic gang may have":  {`{replicas: 2, minAvailable: 1, maxReplicas: 4, successPolicy: {rules: [{succeededIndexes: "3"}]}}`, ""},
		"success of more than an elastic gang may have":   {`{replicas: 2, minAvailable: 1, maxReplicas: 4, successPolicy: {rules: [{succeededCount: 5}]}}`, "succeededCount must not be greater than the number of Pods"},
		"success of an index of a task that has only one": {`{successPolicy: {rules: [{succeededIndexes: "1"}]}}`, "each index in succeededIndexes must be less than the number of Pods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRefusal(t, s.tryToCreate(t, tasks, "GPUTask", tc.spec), tc.want)
		})
	}
}

// TestATaskAcceptsTheTemplatesOfJobs has templates that people and programs write, and that a strict API server accepts
// in a Job.
func TestATaskAcceptsTheTemplatesOfJobs(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	container := func(fields string) string {
		return `{spec: {restartPolicy: Never, containers: [{name: main, image: x, ` + fields + `}]}}`
	}
	pod := func(fields string) string {
		return `{spec: {restartPolicy: Never, containers: [{name: main, image: x}], ` + fields + `}}`
	}
	for name, tc := range map[string]struct {
		template string
		differs  string // part of the task's error where it is documented that it refuses the template
	}{
		"a variable twice":                {template: container(`env: [{name: A, value: a}, {name: B, value: b}, {name: A, value: c}]`)},
		"a port with two names":           {template: container(`ports: [{name: http, containerPort: 8080}, {name: metrics, containerPort: 8080}]`)},
		"a port twice":                    {template: container(`ports: [{containerPort: 8080, protocol: TCP}, {containerPort: 8080}]`)},
		"a port with two protocols":       {template: container(`ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]`)},
		"a variable twice, to begin with": {template: pod(`initContainers: [{name: a, image: x, env: [{name: A}, {name: A}], ports: [{containerPort: 1}, {containerPort: 1}]}]`)},
		"two names for an address":        {template: pod(`hostAliases: [{ip: 10.0.0.1, hostnames: [a]}, {ip: 10.0.0.1, hostnames: [b]}]`)},
		"a pull secret twice":             {template: pod(`imagePullSecrets: [{name: a}, {name: a}]`)},
		"what kubectl create job writes":  {template: `{metadata: {creationTimestamp: null}, spec: {restartPolicy: Never, containers: [{name: main, image: x, command: [date], resources: {}}]}}`},
		"a volume with its claim":         {template: pod(`volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {metadata: {creationTimestamp: null, labels: {a: b}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]`)},
		"what a chart leaves empty": {template: `{metadata: {labels: null, annotations: null}, spec: {restartPolicy: Never, nodeSelector: null, tolerations: null, affinity: null, volumes: null, imagePullSecrets: null, securityContext: null,
			containers: [{name: main, image: x, args: null, command: null, env: null, envFrom: null, ports: null, volumeMounts: null, resources: null}]}}`},
		"whole numbers of resources":    {template: container(`resources: {requests: {cpu: 2, memory: 1000000000}, limits: {cpu: "2.5", memory: 1e9}}`)},
		"a fraction as a number":        {template: container(`resources: {requests: {cpu: 0.5}}`), differs: `spec.template.spec.containers[0].resources.requests.cpu: Invalid value: "number"`},
		"a probe of a port by its name": {template: container(`ports: [{name: http, containerPort: 80}], readinessProbe: {httpGet: {path: /, port: http}}, livenessProbe: {tcpSocket: {port: 80}}`)},
		"restarts by exit codes":        {template: container(`restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42, 42]}}]`)},
		"a sidecar":                     {template: pod(`initContainers: [{name: proxy, image: x, restartPolicy: Always, startupProbe: {exec: {command: ["true"]}}}]`)},
		"spread constraints":            {template: pod(`topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}, {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]`)},
		"the node's network":            {template: pod(`hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet, hostIPC: true`)},
		"a name and a namespace":        {template: `{metadata: {name: main}, spec: {restartPolicy: Never, containers: [{name: main, image: x}]}}`},
		"all kinds of volumes":          {template: pod(`volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {medium: Memory, sizeLimit: 8Gi}}, {name: c, hostPath: {path: /data}}, {name: d, secret: {secretName: s, defaultMode: 0400}}, {name: e, projected: {sources: [{serviceAccountToken: {path: token}}]}}, {name: f, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}}, {name: g, nfs: {server: s, path: /}}, {name: h, csi: {driver: d}}]`)},
		"a container that nobody names": {template: `{spec: {restartPolicy: Never, containers: [{name: a, image: x}, {name: b, image: x}]}}`, differs: `one of several containers must be named "gpu-task"`},
		"a node":                        {template: pod(`nodeName: a`), differs: `must be empty: it would bypass the scheduler`},
		"privileges and security":       {template: container(`securityContext: {privileged: true, capabilities: {add: [IPC_LOCK]}, seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}}`)},
		"the same claim in two volumes": {template: pod(`volumes: [{name: a, persistentVolumeClaim: {claimName: c}}, {name: b, persistentVolumeClaim: {claimName: c}}]`)},
		"the same toleration twice":     {template: pod(`tolerations: [{operator: Exists}, {operator: Exists}]`)},
		"the same source of variables":  {template: container(`envFrom: [{configMapRef: {name: a}}, {configMapRef: {name: a}}]`)},
		"a grace period of nothing":     {template: pod(`terminationGracePeriodSeconds: 0`)},
		"an account under its old name": {template: pod(`serviceAccount: a, serviceAccountName: a`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := s.tryToCreate(t, jobs, "Job", `{template: `+tc.template+`}`); err != nil {
				t.Fatalf("a Job refuses it, too: %v", err)
			}
			checkRefusal(t, s.tryToCreate(t, tasks, "GPUTask", `{template: `+tc.template+`}`), tc.differs)
			inRole := s.tryToCreate(t, tasks, "GPUTask", `{roles: [{name: a, template: `+tc.template+`}]}`)
			checkRefusal(t, inRole, strings.ReplaceAll(tc.differs, "spec.template", "spec.roles[0].template"))
		})
	}
}
