// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"

// cause is a task that waits for one particular thing.
type cause struct {
	want v1.TaskReason
	// spec is that of the task, in YAML. In all texts, NAMESPACE stands for the namespace, which has the name of the
	// cause.
	spec string
	// objects are others that have to exist first, as YAML documents.
	objects string
	// labels are those of the namespace.
	labels map[string]string
	// unforeseen is true if "whatif" can't know the cause, as each such cause says, and silent if no Event says it.
	unforeseen, silent bool
	// asked is the cause in the words of "whatif", if they are others.
	asked string
}

// onFree is the beginning of a spec of a task for which there is room.
const onFree = "gpu: rtx4090\n"

// volume is a template with a volume of the claim "data".
const volume = `
template:
  spec:
    containers: [{name: main, volumeMounts: [{name: data, mountPath: /data}]}]
    volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// causes are the causes by name.
func causes() map[string]cause {
	return map[string]cause{
		// Volumes.
		"volume-missing":        {want: v1.TaskBlocked, spec: onFree + volume},
		"volume-missing-of-two": {want: v1.TaskBlocked, spec: onFree + "replicas: 2\n" + volume},
		// What-if does not look at whether claims are bound.
		"volume-unbound": {want: v1.TaskBlocked, unforeseen: true, spec: onFree + volume, objects: claim("ReadWriteOnce", "")},
		// What-if does not look at whether claims are bound.
		"volume-is-lost": {want: v1.TaskBlocked, unforeseen: true, spec: onFree + volume, objects: `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {accessModes: [ReadWriteOnce], volumeName: lost, storageClassName: "", resources: {requests: {storage: 1Gi}}}
`},
		// Only kube-scheduler's filters know where volumes can be reached.
		"volume-elsewhere": {want: v1.TaskBlocked, unforeseen: true, spec: onFree + volume, objects: claim("ReadWriteOnce", "elsewhere") + `
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: elsewhere}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  claimRef: {namespace: NAMESPACE, name: data}
  hostPath: {path: /data}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [full-0]}]}]}}
`},
		// What the API server refuses.
		// A dry run creates no Pods.
		"quota": {want: v1.TaskBlocked, unforeseen: true, spec: onFree, objects: `
apiVersion: v1
kind: ResourceQuota
metadata: {name: team}
spec: {hard: {pods: "0"}}
`},
		// A dry run creates no Pods.
		"limit-range": {want: v1.TaskBlocked, unforeseen: true, spec: onFree + "cpu: \"4\"\n", objects: `
apiVersion: v1
kind: LimitRange
metadata: {name: team}
spec: {limits: [{type: Container, max: {cpu: "2"}}]}
`},
		// What-if refuses the manifest.
		"priority-class-missing": {want: v1.TaskBlocked, unforeseen: true, spec: onFree + "priority: nobody\n"},
		// A dry run creates no Pods.
		"service-account-missing": {want: v1.TaskBlocked, unforeseen: true, spec: onFree + "template: {spec: {serviceAccountName: nobody, containers: [{name: main}]}}\n"},
		// A dry run creates no Pods.
		"runtime-class-missing": {want: v1.TaskBlocked, unforeseen: true, spec: onFree + "template: {spec: {runtimeClassName: nobody, containers: [{name: main}]}}\n"},
		// A dry run creates no Pods.
		"pod-security": {
			want: v1.TaskBlocked, unforeseen: true, spec: onFree + "template: {spec: {containers: [{name: main, securityContext: {privileged: true}}]}}\n",
			labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"},
		},
		// A dry run creates no Pods.
		"webhook-unreachable": {want: v1.TaskBlocked, unforeseen: true, spec: onFree, objects: `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE}
webhooks:
- name: check.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 1
  clientConfig: {url: "https://127.0.0.1:1/check"}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
`},
		// A dry run creates no Pods.
		"policy": {want: v1.TaskBlocked, unforeseen: true, spec: onFree, objects: `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "false", message: no Pods on Fridays}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec:
  policyName: NAMESPACE
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}
`},
		// Other tasks, and the user.
		// What-if answers for the time after other tasks, which it names.
		"dependency-missing": {want: v1.TaskBlocked, unforeseen: true, spec: onFree + "dependsOn: [{name: nobody}]\n"},
		// What-if answers for the time after other tasks, which it names.
		"dependency-waits": {want: v1.TaskBlocked, unforeseen: true, spec: onFree + "dependsOn: [{name: other}]\n", objects: task("other", "gpu: h100-80gb-hbm3\n")},
		// What-if answers for the time after other tasks, which it names.
		"dependency-cycle": {want: v1.TaskBlocked, unforeseen: true, spec: onFree + "dependsOn: [{name: other}]\n", objects: task("other", onFree+"dependsOn: [{name: task}]\n")},
		// Nobody knows when gates are removed, and no scheduler has tried it.
		"gate": {want: v1.TaskBlocked, unforeseen: true, silent: true, spec: onFree + "template: {spec: {schedulingGates: [{name: example.com/data}], containers: [{name: main}]}}\n"},
		// Nobody knows how it will end, and its Event does not say when the restart is.
		"failed-once": {want: v1.TaskStarting, unforeseen: true, silent: true, spec: onFree + `
template: {metadata: {annotations: {simulation.falldio.com/duration: 1s, simulation.falldio.com/exit-code: "7"}}}
`},
		// Other Pods.
		// Only kube-scheduler's filters know which ports are taken.
		"host-port": {
			want: v1.TaskBlocked, unforeseen: true, spec: onFree + "template: {spec: {containers: [{name: main, ports: [{containerPort: 80, hostPort: 8080}]}]}}\n",
			objects: task("other", onFree+"replicas: 2\ngpu-amount: \"3\"\ntemplate: {spec: {containers: [{name: main, ports: [{containerPort: 80, hostPort: 8080}]}]}}\n"),
		},
		// Only kube-scheduler's filters know whom Pods have to be near.
		"pod-affinity": {want: v1.TaskBlocked, unforeseen: true, spec: onFree + `
template:
  spec:
    containers: [{name: main}]
    affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: nobody}}}]}}
`},
		// Nodes.
		"node-selector":       {want: v1.TaskNeverFits, spec: onFree + "template: {spec: {nodeSelector: {example.com/rack: r1}, containers: [{name: main}]}}\n"},
		"node-pool":           {want: v1.TaskNeverFits, spec: onFree + "nodePool: nowhere\n"},
		"model-unknown":       {want: v1.TaskNeverFits, spec: "gpu: h100\n"},
		"too-many-gpus":       {want: v1.TaskNeverFits, spec: "gpu: h100-80gb-hbm3\ngpu-amount: \"16\"\n"},
		"too-much-gpu-memory": {want: v1.TaskNeverFits, spec: "gpuMemory: 200Gi\n"},
		"profile-unknown":     {want: v1.TaskNeverFits, spec: "gpuProfile: 1g.10gb\n"},
		"too-much-cpu":        {want: v1.TaskNeverFits, spec: onFree + "cpu: \"4000\"\n"},
		"gang-too-large":      {want: v1.TaskNeverFits, spec: "gpu: h100-80gb-hbm3\ngpu-amount: \"8\"\nreplicas: 5\n"},
		"level-unknown":       {want: v1.TaskNeverFits, spec: onFree + "replicas: 2\ntopology: {level: rakc, mode: Required}\n"},
		"nodes-cordoned":      {want: v1.TaskBlocked, spec: "gpu: l40s\n"},
		"node-not-ready":      {want: v1.TaskBlocked, spec: "gpu: l4\n"},
		"node-tainted":        {want: v1.TaskNeverFits, spec: "gpu: a10\n"},
		// What only the kubelet knows.
		// Only the kubelet finds it, and its Event has other words than the Pod's status.
		"image-missing": {want: v1.TaskBlocked, unforeseen: true, silent: true, spec: onFree + `
template: {metadata: {annotations: {simulation.falldio.com/stuck-on: "*", simulation.falldio.com/stuck-in: image}}}
`},
		// Its turn.
		"gpus-taken":  {want: v1.TaskQueued, spec: "gpu: h100-80gb-hbm3\n"},
		"gang-waits":  {want: v1.TaskQueued, spec: "gpu: h100-80gb-hbm3\ngpu-amount: \"8\"\nreplicas: 2\n"},
		"share-waits": {want: v1.TaskQueued, spec: "gpu: h100-80gb-hbm3\ngpu-amount: \"0.5\"\n"},
		// Queues.
		"queue-missing":    {want: v1.TaskBlocked, spec: onFree + "queue: nobody\n"},
		"queue-not-for-it": {want: v1.TaskBlocked, spec: onFree + "queue: closed\n", objects: queue("closed", "namespaceSelector: {matchLabels: {team: nobody}}")},
		"queue-limit": {want: v1.TaskQueued, spec: onFree + "queue: small\n", objects: queue("small", `
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
  resources: [{gpu: "*", guaranteed: 0, limit: 0}]`)},
		// Claims.
		// What-if has looked for the claim, and kube-scheduler has said nothing, not in an Event either.
		"claim-missing": {want: v1.TaskBlocked, silent: true, asked: `ResourceClaim "nobody" does not exist`, spec: onFree + `
template:
  spec:
    resourceClaims: [{name: nic, resourceClaimName: nobody}]
    containers: [{name: main, resources: {claims: [{name: nic}]}}]
`},
	}
}

func claim(mode, volume string) string {
	return `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [` + mode + `], volumeName: "` + volume + `", storageClassName: "", resources: {requests: {storage: 1Gi}}}
`
}

func queue(name, spec string) string {
	return "apiVersion: falldio.com/v1\nkind: GPUQueue\nmetadata: {name: " + name + "}\nspec:\n  " + spec + "\n"
}

func task(name, spec string) string {
	text := "apiVersion: falldio.com/v1\nkind: GPUTask\nmetadata: {name: " + name + "}\nspec:\n"
	return text + indented(spec)
}
