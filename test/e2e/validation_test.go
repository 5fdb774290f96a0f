// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// volumes returns the items of a list of volumes.
func volumes(count int) string {
	var items strings.Builder
	for i := range count {
		fmt.Fprintf(&items, "{name: v%d},", i)
	}
	return items.String()
}

// TestValidationOnCreate has an accepted and a rejected object for every rule of the
// CRD's schema for new tasks. It needs no controller: only the API server is
// involved.
func TestValidationOnCreate(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	long := strings.Repeat("a", 59)
	tests := map[string]struct {
		// spec is the task's spec as YAML.
		spec string
		// name is the task's name, if it matters.
		name string
		// want is part of the error; empty if the task is accepted.
		want string
	}{
		"the five fields of the documents":   {spec: `{gpu: rtx4090, gpu-amount: "1", cpu: "8", memory: 16Gi, priority: gpu-low-priority}`},
		"no field at all":                    {spec: `{}`},
		"an unknown field":                   {spec: `{gpus: "1"}`, want: `unknown field "spec.gpus"`},
		"amounts as numbers":                 {spec: `{gpu-amount: 2, cpu: 8, memory: 17179869184, gpuMemory: 42949672960}`},
		"amounts of a role as numbers":       {spec: `{roles: [{name: a, gpu-amount: 0, cpu: 1, memory: 4194304, gpuMemory: 268435456}]}`},
		"no GPU, as a number":                {spec: `{gpu-amount: 0}`, want: `must be a whole number of GPUs`},
		"negative cpu, as a number":          {spec: `{cpu: -1}`, want: `must be a quantity of CPU cores`},
		"memory without its unit, a number":  {spec: `{memory: 16}`, want: `must be a quantity from 4Mi to 1Pi with its unit`},
		"half a core":                        {spec: `{cpu: 500m}`},
		"negative cpu":                       {spec: `{cpu: "-1"}`, want: `spec.cpu: Invalid value: "-1": must be a quantity of CPU cores greater than 0 and at most 100k, for example "8" or "500m"`},
		"no cpu":                             {spec: `{cpu: "0"}`, want: `spec.cpu: Invalid value: "0": must be a quantity of CPU cores greater than 0 and at most 100k`},
		"more cpu than anybody has":          {spec: `{cpu: "1e400"}`, want: `spec.cpu: Invalid value: "1e400": must be a quantity of CPU cores greater than 0 and at most 100k`},
		"more memory than anybody has":       {spec: `{memory: 2Pi}`, want: `spec.memory: Invalid value: "2Pi": must be a quantity from 4Mi to 1Pi`},
		"cpu in words":                       {spec: `{cpu: many}`, want: `spec.cpu: Invalid value: "many": must be a quantity`},
		"cpu as endless text":                {spec: `{cpu: "` + strings.Repeat("1", 33) + `"}`, want: `spec.cpu: Too long`},
		"memory":                             {spec: `{memory: 16Gi}`},
		"memory in words":                    {spec: `{memory: lots}`, want: `spec.memory: Invalid value: "lots": must be a quantity from 4Mi to 1Pi with its unit, for example "16Gi"`},
		"memory without its unit":            {spec: `{memory: "16"}`, want: `spec.memory: Invalid value: "16": must be a quantity from 4Mi to 1Pi with its unit`},
		"memory as endless text":             {spec: `{memory: "` + strings.Repeat("1", 33) + `"}`, want: `spec.memory: Too long`},
		"a GPU model with all signs":         {spec: `{gpu: NVIDIA_A100-SXM4.80GB}`},
		"a GPU model that is no label":       {spec: `{gpu: "RTX 4090"}`, want: `spec.gpu: Invalid value: "RTX 4090": must be a GPU model as in the node label falldio.com/gpu`},
		"an empty GPU model":                 {spec: `{gpu: ""}`, want: `spec.gpu: Invalid value: "": must be a GPU model`},
		"a GPU model that is too long":       {spec: `{gpu: ` + strings.Repeat("a", 64) + `}`, want: `spec.gpu: Too long`},
		"eight GPUs":                         {spec: `{gpu-amount: "8"}`},
		"half a GPU":                         {spec: `{gpu-amount: "0.5"}`},
		"half a GPU with two decimals":       {spec: `{gpu-amount: "0.50"}`},
		"the smallest share of a GPU":        {spec: `{gpu-amount: "0.01"}`},
		"the most GPUs":                      {spec: `{gpu-amount: "9999"}`},
		"two and a half GPUs":                {spec: `{gpu-amount: "2.5"}`, want: `spec.gpu-amount: Invalid value: "2.5": must be a whole number of GPUs from "1" to "9999", or a share of one GPU from "0.01" to "0.99" with at most two decimals, for example "2" or "0.5"`},
		"no GPU":                             {spec: `{gpu-amount: "0"}`, want: `spec.gpu-amount: Invalid value: "0": must be a whole number`},
		"a share of nothing":                 {spec: `{gpu-amount: "0.0"}`, want: `spec.gpu-amount: Invalid value: "0.0": must be a whole number`},
		"a share of nothing, more exactly":   {spec: `{gpu-amount: "0.00"}`, want: `spec.gpu-amount: Invalid value: "0.00": must be a whole number`},
		"a share without its 0":              {spec: `{gpu-amount: ".5"}`, want: `spec.gpu-amount: Invalid value: ".5": must be a whole number`},
		"a share in finer steps":             {spec: `{gpu-amount: "0.123"}`, want: `spec.gpu-amount: Invalid value: "0.123": must be a whole number`},
		"a whole GPU as a share":             {spec: `{gpu-amount: "1.0"}`, want: `spec.gpu-amount: Invalid value: "1.0": must be a whole number`},
		"negative GPUs":                      {spec: `{gpu-amount: "-1"}`, want: `spec.gpu-amount: Invalid value: "-1": must be a whole number`},
		"more GPUs than anybody has":         {spec: `{gpu-amount: "10000"}`, want: `spec.gpu-amount: Invalid value: "10000": must be a whole number of GPUs from "1" to "9999"`},
		"GPUs as endless text":               {spec: `{gpu-amount: "` + strings.Repeat("1", 17) + `"}`, want: `spec.gpu-amount: Too long`},
		"a MIG slice":                        {spec: `{gpu: a, gpuProfile: 1g.10gb}`},
		"MIG slices with media engines":      {spec: `{gpuProfile: 1g.10gb+me, gpu-amount: "7"}`},
		"a MIG profile that is none":         {spec: `{gpuProfile: small}`, want: `spec.gpuProfile: Invalid value: "small": must be a MIG profile in NVIDIA's notation, as nvidia-smi lists it: compute slices and memory, for example "1g.10gb" or "1g.10gb+me"`},
		"a MIG profile as a resource":        {spec: `{gpuProfile: mig-1g.10gb}`, want: `spec.gpuProfile: Invalid value: "mig-1g.10gb": must be a MIG profile`},
		"a MIG profile that is too long":     {spec: `{gpuProfile: 1g.10gb+` + strings.Repeat("a", 32) + `}`, want: `spec.gpuProfile: Too long`},
		"a share of a MIG slice":             {spec: `{gpuProfile: 1g.10gb, gpu-amount: "0.5"}`, want: `spec.gpu-amount: Invalid value: must be a whole number of MIG slices with gpuProfile, for example "1"`},
		"memory beside a MIG profile":        {spec: `{gpuProfile: 1g.10gb, gpuMemory: 10G}`, want: `spec.gpuMemory: Invalid value: must be left out with gpuProfile: the profile says how much memory a MIG slice has`},
		"roles with MIG slices":              {spec: `{gpuProfile: 1g.10gb, roles: [{name: a, gpu-amount: "0"}, {name: b, gpu-amount: "2"}, {name: c, gpuProfile: 3g.40gb}]}`},
		"roles with MIG slices and GPUs":     {spec: `{roles: [{name: a, gpu-amount: "0.5"}, {name: b, gpuProfile: 1g.10gb}]}`},
		"a role with a wrong MIG profile":    {spec: `{roles: [{name: a, gpuProfile: 1g}]}`, want: `spec.roles[0].gpuProfile: Invalid value: "1g": must be a MIG profile`},
		"a role with a share of a MIG slice": {spec: `{gpuProfile: 1g.10gb, roles: [{name: a, gpu-amount: "0.5"}]}`, want: `spec.roles: Invalid value: gpu-amount must be a whole number of MIG slices in each role with a gpuProfile, its own or that of the task`},
		"a share for a role of MIG slices":   {spec: `{gpu-amount: "0.5", roles: [{name: a, gpuProfile: 1g.10gb}]}`, want: `spec.roles: Invalid value: gpu-amount must be a whole number of MIG slices`},
		"memory for a role of MIG slices":    {spec: `{gpuMemory: 40G, roles: [{name: a, gpuProfile: 1g.10gb}]}`, want: `spec.roles: Invalid value: gpuMemory must be left out of the task and of each role with a gpuProfile`},
		"a PriorityClass with a dot":         {spec: `{priority: gpu.high}`},
		"a PriorityClass that can't be":      {spec: `{priority: High Priority}`, want: `spec.priority: Invalid value: "High Priority": must be the name of a PriorityClass`},
		"a PriorityClass that is too long":   {spec: `{priority: ` + strings.Repeat("a", 254) + `}`, want: `spec.priority: Too long`},
		"a queue":                            {spec: `{queue: research-2}`},
		"a queue that can't be":              {spec: `{queue: My.Queue}`, want: `spec.queue: Invalid value: "My.Queue": must be the name of a GPUQueue: lower-case letters, digits and '-', beginning and ending with a letter or digit, for example "research"`},
		"a queue whose name is too long":     {spec: `{queue: ` + strings.Repeat("a", 64) + `}`, want: `spec.queue: Too long`},
		"GPU memory":                         {spec: `{gpuMemory: 80G}`},
		"GPU memory without its unit":        {spec: `{gpuMemory: "80"}`, want: `spec.gpuMemory: Invalid value: "80": must be a quantity from 256Mi to 16Ti with its unit, for example "40G"`},
		"GPU memory as endless text":         {spec: `{gpuMemory: "` + strings.Repeat("1", 33) + `"}`, want: `spec.gpuMemory: Too long`},
		"more GPU memory than can be":        {spec: `{gpuMemory: 10E}`, want: `spec.gpuMemory: Invalid value: "10E": must be a quantity from 256Mi to 16Ti`},
		"a Pod that never ends":              {spec: `{template: {spec: {restartPolicy: Always}}}`, want: `spec.template.spec.restartPolicy: Invalid value: must be Never or OnFailure: tasks run to completion`},
		"a Pod that its node restarts":       {spec: `{template: {spec: {restartPolicy: OnFailure}}}`},
		"a node pool":                        {spec: `{nodePool: training}`},
		"a node pool that is no label":       {spec: `{nodePool: "-x"}`, want: `spec.nodePool: Invalid value: "-x": must be a node pool`},
		"a node pool that is too long":       {spec: `{nodePool: ` + strings.Repeat("a", 64) + `}`, want: `spec.nodePool: Too long`},
		"the largest gang":                   {spec: `{replicas: 4096}`},
		"a gang of nobody":                   {spec: `{replicas: 0}`, want: `spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1`},
		"a gang that is too large":           {spec: `{replicas: 4097}`, want: `spec.replicas: Invalid value: 4097: spec.replicas in body should be less than or equal to 4096`},
		"a gang that starts with fewer":      {spec: `{replicas: 4, minAvailable: 3}`},
		"a gang that starts whole":           {spec: `{replicas: 4, minAvailable: 4}`},
		"a gang that starts with nobody":     {spec: `{replicas: 4, minAvailable: 0}`, want: `spec.minAvailable: Invalid value: 0: spec.minAvailable in body should be greater than or equal to 1`},
		"a gang that starts with too many":   {spec: `{replicas: 4, minAvailable: 5}`, want: `spec.minAvailable: Invalid value: must not be greater than spec.replicas, the number of Pods of the task`},
		"one Pod that starts with two":       {spec: `{minAvailable: 2}`, want: `spec.minAvailable: Invalid value: must not be greater than spec.replicas`},
		"a topology":                         {spec: `{replicas: 2, topology: {level: leaf, mode: Required}}`},
		"a topology for one Pod":             {spec: `{topology: {level: nvlink-domain-2}}`},
		"a topology without a level":         {spec: `{topology: {mode: Required}}`, want: `spec.topology.level: Required value`},
		"a topology of an empty level":       {spec: `{topology: {level: ""}}`, want: `spec.topology.level: Invalid value: "": must be a level of gpu-scheduler's configuration: lower-case letters, digits and '-', beginning and ending with a letter or digit, for example "leaf"`},
		"a level that is no name":            {spec: `{topology: {level: Leaf_1}}`, want: `spec.topology.level: Invalid value: "Leaf_1": must be a level`},
		"a level that is too long":           {spec: `{topology: {level: ` + strings.Repeat("a", 64) + `}}`, want: `spec.topology.level: Too long`},
		"a mode nobody knows":                {spec: `{topology: {level: leaf, mode: Maybe}}`, want: `spec.topology.mode: Unsupported value: "Maybe": supported values: "Required", "Preferred"`},
		"a template with only annotations":   {spec: `{template: {metadata: {annotations: {a: b}}}}`},
		"one container of any name":          {spec: `{template: {spec: {containers: [{name: main, image: x}]}}}`},
		"a sidecar beside gpu-task":          {spec: `{template: {spec: {containers: [{name: log, image: x}, {name: gpu-task, image: x}]}}}`},
		"two containers without gpu-task":    {spec: `{template: {spec: {containers: [{name: log, image: x}, {name: main, image: x}]}}}`, want: `spec.template.spec.containers: Invalid value: one of several containers must be named "gpu-task": it is the one that gets the GPUs`},
		"a container name that can't be":     {spec: `{template: {spec: {containers: [{name: GPU_Task, image: x}]}}}`, want: `spec.template.spec.containers: Invalid value: every container's name must consist of lower-case letters, digits and '-'`},
		"a container name that is too long":  {spec: `{template: {spec: {containers: [{name: ` + strings.Repeat("a", 64) + `}]}}}`, want: `spec.template.spec.containers[0].name: Too long`},
		"a template without containers":      {spec: `{template: {spec: {hostNetwork: true}}}`},
		"too many containers":                {spec: `{template: {spec: {containers: [` + strings.Repeat(`{name: gpu-task},`, 65) + `]}}}`, want: `spec.template.spec.containers: Too many: 65: must have at most 64 items`},
		"as many volumes as anybody needs":   {spec: `{replicas: 4096, template: {spec: {volumes: [` + volumes(256) + `]}}}`},
		"a template that grows large":        {spec: `{replicas: 4096, template: {spec: {volumes: [` + volumes(2600) + `]}}}`, want: `spec.template.spec.volumes: Too many: 2600: must have at most 256 items`},
		"a role's template that grows large": {spec: `{roles: [{name: a, template: {spec: {tolerations: [` + strings.Repeat(`{},`, 257) + `]}}}]}`, want: `spec.roles[0].template.spec.tolerations: Too many: 257: must have at most 256 items`},
		"a long script in one Pod":           {spec: `{template: {spec: {containers: [{name: a, args: [` + strings.Repeat("a", 100<<10) + `]}]}}}`},
		"a long script in many Pods":         {spec: `{replicas: 4096, template: {spec: {containers: [{name: a, args: [` + strings.Repeat("a", 100<<10) + `]}]}}}`, want: `spec.template: Invalid value: the arguments, the values of variables and the annotations of all Pods must not have more than 256 MiB together: put long ones into a ConfigMap or a volume, or lower the number of Pods`},
		"a template that chooses the node":   {spec: `{template: {spec: {nodeName: a}}}`, want: `spec.template.spec.nodeName: Invalid value: must be empty: it would bypass the scheduler`},
		"no rendezvous":                      {spec: `{replicas: 2, rendezvous: None}`},
		"a rendezvous nobody knows":          {spec: `{rendezvous: Mesh}`, want: `spec.rendezvous: Unsupported value: "Mesh": supported values: "Service", "None"`},
		"a template with a misspelt field":   {spec: `{template: {spec: {containers: [{name: a, imgae: x}]}}}`, want: `unknown field "spec.template.spec.containers[0].imgae"`},
		"a dependency":                       {spec: `{dependsOn: [{name: a, condition: Running, onFailure: Ignore}, {name: b}]}`},
		"a task that depends on itself":      {name: "self", spec: `{dependsOn: [{name: self}]}`, want: `spec.dependsOn: Invalid value: a task cannot depend on itself`},
		"a dependency on nothing":            {spec: `{dependsOn: [{name: ""}]}`, want: `spec.dependsOn[0].name: Invalid value: "": spec.dependsOn[0].name in body should be at least 1 chars long`},
		"a dependency that can't be":         {spec: `{dependsOn: [{name: ` + long + `}]}`, want: `spec.dependsOn[0].name: Too long`},
		"the same dependency twice":          {spec: `{dependsOn: [{name: a}, {name: a}]}`, want: `spec.dependsOn[1]: Duplicate value: {"name":"a"}`},
		"a condition nobody knows":           {spec: `{dependsOn: [{name: a, condition: Done}]}`, want: `spec.dependsOn[0].condition: Unsupported value: "Done": supported values: "Running", "Succeeded", "Finished"`},
		"an action nobody knows":             {spec: `{dependsOn: [{name: a, onFailure: Retry}]}`, want: `spec.dependsOn[0].onFailure: Unsupported value: "Retry": supported values: "Fail", "Ignore"`},
		"too many dependencies":              {spec: `{dependsOn: [` + strings.Repeat(`{name: a},`, 33) + `]}`, want: `spec.dependsOn: Too many: 33: must have at most 32 items`},
		"a failure policy":                   {spec: `{failurePolicy: RestartPod}`},
		"a failure rule":                     {spec: `{failureRules: [{action: FailTask, onExitCodes: {operator: In, values: [1, 2]}}, {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}, {action: RestartPod, onReasons: [OOMKilled]}]}`},
		"a failure rule without a cause":     {spec: `{failureRules: [{action: FailTask}]}`, want: `spec.failureRules[0]: Invalid value: exactly one of onExitCodes, onPodConditions and onReasons must be set`},
		"a failure rule with two causes":     {spec: `{failureRules: [{action: FailTask, onReasons: [a], onPodConditions: [{type: b}]}]}`, want: `spec.failureRules[0]: Invalid value: exactly one of onExitCodes, onPodConditions and onReasons must be set`},
		"a rule about success":               {spec: `{failureRules: [{action: FailTask, onExitCodes: {operator: In, values: [0]}}]}`, want: `spec.failureRules[0].onExitCodes.values: Invalid value: must not contain 0 with the operator In: a container with that exit code has not failed`},
		"what to do when a Pod is lost":      {spec: `{onLostPod: RestartTask}`},
		"a run time":                         {spec: `{maxRuntimeSeconds: 1}`},
		"a run time of nothing":              {spec: `{maxRuntimeSeconds: 0}`, want: `spec.maxRuntimeSeconds: Invalid value: 0`},
		"a failure policy nobody knows":      {spec: `{failurePolicy: Always}`, want: `spec.failurePolicy: Unsupported value: "Always": supported values: "RestartTask", "RestartPod"`},
		"no restarts":                        {spec: `{backoffLimit: 0}`},
		"negative restarts":                  {spec: `{backoffLimit: -1}`, want: `spec.backoffLimit: Invalid value: -1: spec.backoffLimit in body should be greater than or equal to 0`},
		"endless restarts":                   {spec: `{backoffLimit: 1001}`, want: `spec.backoffLimit: Invalid value: 1001`},
		"a deadline":                         {spec: `{activeDeadlineSeconds: 1}`},
		"a deadline of nothing":              {spec: `{activeDeadlineSeconds: 0}`, want: `spec.activeDeadlineSeconds: Invalid value: 0`},
		"a deadline after all time":          {spec: `{activeDeadlineSeconds: 2147483648}`, want: `spec.activeDeadlineSeconds: Invalid value: 2147483648`},
		"deletion at once":                   {spec: `{ttlSecondsAfterFinished: 0}`},
		"deletion before the end":            {spec: `{ttlSecondsAfterFinished: -1}`, want: `spec.ttlSecondsAfterFinished: Invalid value: -1`},
		"suspended from the start":           {spec: `{suspend: true}`},
		"suspended in words":                 {spec: `{suspend: "yes"}`, want: `spec.suspend: Invalid value: "string": spec.suspend in body must be of type boolean`},
		"rescheduling":                       {spec: `{rescheduling: {policy: Never, minRuntimeSeconds: 0, maxMoves: 0}}`},
		"rescheduling by a policy unknown":   {spec: `{rescheduling: {policy: Sometimes}}`, want: `spec.rescheduling.policy: Unsupported value: "Sometimes": supported values: "Allowed", "Never"`},
		"a negative runtime":                 {spec: `{rescheduling: {minRuntimeSeconds: -1}}`, want: `spec.rescheduling.minRuntimeSeconds: Invalid value: -1`},
		"negative moves":                     {spec: `{rescheduling: {maxMoves: -1}}`, want: `spec.rescheduling.maxMoves: Invalid value: -1`},
		"an array":                           {spec: `{completions: 10000, replicas: 4, backoffLimitPerIndex: 2, maxFailedIndexes: 3, failureRules: [{action: FailIndex, onReasons: [a]}]}`},
		"an array with too many at a time":   {spec: `{completions: 2000, replicas: 1001}`, want: `spec.replicas: Invalid value: must be at most 1000 in an array`},
		"an array that is lost as a whole":   {spec: `{completions: 2, onLostPod: RestartTask}`, want: `spec.onLostPod: Invalid value: RestartTask can't be combined with completions`},
		"an array that is too long":          {spec: `{completions: 10001}`, want: `spec.completions: Invalid value: 10001`},
		"an array as a gang":                 {spec: `{completions: 2, replicas: 2, minAvailable: 2}`, want: `spec.completions: Invalid value: can't be combined with minAvailable, maxReplicas and topology: the Pods of an array run independently of each other`},
		"an array near each other":           {spec: `{completions: 2, topology: {level: leaf}}`, want: `spec.completions: Invalid value: can't be combined with minAvailable, maxReplicas and topology`},
		"an array that restarts as a whole":  {spec: `{completions: 2, failureRules: [{action: RestartTask, onReasons: [a]}]}`, want: `spec.failureRules: Invalid value: the action RestartTask can't be combined with completions`},
		"a limit per index without indexes":  {spec: `{backoffLimitPerIndex: 2}`, want: `spec.backoffLimitPerIndex: Invalid value: needs completions`},
		"failed indexes without their limit": {spec: `{completions: 2, maxFailedIndexes: 2}`, want: `spec.maxFailedIndexes: Invalid value: needs backoffLimitPerIndex`},
		"an index that fails without limit":  {spec: `{completions: 2, failureRules: [{action: FailIndex, onReasons: [a]}]}`, want: `spec.failureRules: Invalid value: the action FailIndex needs backoffLimitPerIndex`},
		"an elastic gang":                    {spec: `{replicas: 2, minAvailable: 1, maxReplicas: 4}`},
		"an elastic gang without a minimum":  {spec: `{replicas: 2, maxReplicas: 4}`, want: `spec.maxReplicas: Invalid value: needs minAvailable, the minimum number of Pods that the task can run with`},
		"an elastic gang above its maximum":  {spec: `{replicas: 5, minAvailable: 1, maxReplicas: 4}`, want: `spec.replicas: Invalid value: must not be greater than spec.maxReplicas`},
		"roles":                              {spec: `{gpu: a, roles: [{name: launcher, gpu-amount: "0", cpu: "1", template: {spec: {containers: [{name: main, image: x}]}}}, {name: worker, replicas: 8, failurePolicy: RestartPod}], successPolicy: {rules: [{role: launcher}]}}`},
		"roles with replicas beside them":    {spec: `{replicas: 2, roles: [{name: a}]}`, want: `spec.replicas: Invalid value: must be left out of a task with roles: each role has its own`},
		"roles in an array":                  {spec: `{completions: 2, roles: [{name: a}]}`, want: `spec.roles: Invalid value: can't be combined with minAvailable, maxReplicas and completions: all Pods of all roles start together`},
		"the same role twice":                {spec: `{roles: [{name: a}, {name: a}]}`, want: `spec.roles[1]: Duplicate value: {"name":"a"}`},
		"a role that is no name":             {spec: `{roles: [{name: A_b}]}`, want: `spec.roles[0].name: Invalid value: "A_b": must consist of lower-case letters, digits and '-'`},
		"a role of nobody":                   {spec: `{roles: [{name: a, replicas: 0}]}`, want: `spec.roles[0].replicas: Invalid value: 0`},
		"roles that are too large together":  {spec: `{roles: [{name: a, replicas: 4096}, {name: b}]}`, want: `spec.roles: Invalid value: must have at most 4096 replicas together`},
		"a role without its name":            {spec: `{roles: [{replicas: 2}]}`, want: `spec.roles[0].name: Required value`},
		"names that are too long together":   {name: strings.Repeat("c", 50), spec: `{roles: [{name: launcher}]}`, want: `the task's name and a role's name must have at most 57 characters together`},
		"a role with half a card and more":   {spec: `{roles: [{name: a, gpu-amount: "1.5"}]}`, want: `spec.roles[0].gpu-amount: Invalid value: "1.5": must be a whole number of GPUs from "0" to "9999"`},
		"a role whose template has a node":   {spec: `{roles: [{name: a, template: {spec: {nodeName: x}}}]}`, want: `spec.roles[0].template.spec.nodeName: Invalid value: must be empty`},
		"a role with a misspelt field":       {spec: `{roles: [{name: a, template: {spec: {containers: [{name: a, imgae: x}]}}}]}`, want: `unknown field "spec.roles[0].template.spec.containers[0].imgae"`},
		"success of a role that is none":     {spec: `{roles: [{name: a}], successPolicy: {rules: [{role: b}]}}`, want: `spec.successPolicy.rules: Invalid value: each role must be one of spec.roles`},
		"success of some indexes":            {spec: `{replicas: 4, successPolicy: {rules: [{succeededIndexes: "0,2-3", succeededCount: 2}]}}`},
		"success of words":                   {spec: `{successPolicy: {rules: [{succeededIndexes: all}]}}`, want: `spec.successPolicy.rules[0].succeededIndexes: Invalid value: "all": must be numbers and ranges of indexes in increasing order, separated by commas, for example "0,2-4"`},
		"the longest name":                   {name: strings.Repeat("b", 58), spec: `{}`},
		"a name that is too long":            {name: long, spec: `{}`, want: `metadata.name must have at most 58 characters`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "falldio.com/v1", "kind": "GPUTask"}}
			spec := map[string]any{}
			if err := yaml.Unmarshal([]byte(tc.spec), &spec); err != nil {
				t.Fatal(err)
			}
			object.Object["spec"] = spec
			if tc.name != "" {
				object.SetName(tc.name)
			} else {
				object.SetGenerateName("task-")
			}
			_, err := s.cluster.dynamic.Resource(v1.TaskKind().GroupVersion().WithResource("gputasks")).Namespace(s.namespace).
				Create(t.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			checkRefusal(t, err, tc.want)
		})
	}
}

func TestValidationOnUpdate(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const immutable = "is immutable: delete the task and recreate it"
	const unlessSuspended = "is immutable while the task is not suspended: set suspend to true first, or delete the task and recreate it"
	original := `{"spec": {"gpu": "a", "cpu": "1", "memory": "1Gi", "priority": "p", "queue": "q", "gpuMemory": "1G", "nodePool": "x",
		"replicas": 3, "minAvailable": 2, "topology": {"level": "leaf"},
		"dependsOn": [{"name": "other"}], "template": {"metadata": {"annotations": {"a": "b"}}}}}`
	tests := map[string]struct {
		patch string // a JSON merge patch
		want  string
	}{
		"suspend may change":                 {`{"spec": {"suspend": true}}`, ""},
		"the TTL may change":                 {`{"spec": {"ttlSecondsAfterFinished": 5}}`, ""},
		"the deadline may change":            {`{"spec": {"activeDeadlineSeconds": 5}}`, ""},
		"the backoff limit may change":       {`{"spec": {"backoffLimit": 5}}`, ""},
		"rescheduling may change":            {`{"spec": {"rescheduling": {"policy": "Never"}}}`, ""},
		"labels may change":                  {`{"metadata": {"labels": {"a": "b"}}}`, ""},
		"gpu may not change":                 {`{"spec": {"gpu": "b"}}`, "spec.gpu: Invalid value: " + immutable},
		"gpu may not be dropped":             {`{"spec": {"gpu": null}}`, "spec.gpu: Invalid value: " + immutable},
		"cpu may not change":                 {`{"spec": {"cpu": "2"}}`, "spec.cpu: Invalid value: " + immutable},
		"memory may not change":              {`{"spec": {"memory": "2Gi"}}`, "spec.memory: Invalid value: " + immutable},
		"gpu-amount may not change":          {`{"spec": {"gpu-amount": "2"}}`, immutable},
		"priority may not change":            {`{"spec": {"priority": "q"}}`, "spec.priority: Invalid value: " + unlessSuspended},
		"the queue may not change":           {`{"spec": {"queue": "other"}}`, "spec.queue: Invalid value: " + unlessSuspended},
		"the queue may not be dropped":       {`{"spec": {"queue": null}}`, "spec.queue: Invalid value: " + unlessSuspended},
		"gpuMemory may not change":           {`{"spec": {"gpuMemory": "2G"}}`, "spec.gpuMemory: Invalid value: " + immutable},
		"gpuProfile may not be added":        {`{"spec": {"gpuProfile": "1g.10gb", "gpuMemory": null}}`, "spec.gpuProfile: Invalid value: " + immutable},
		"nodePool may not change":            {`{"spec": {"nodePool": "y"}}`, "spec.nodePool: Invalid value: " + immutable},
		"replicas may not change":            {`{"spec": {"replicas": 2}}`, "spec.replicas: Invalid value: is immutable without maxReplicas and completions: delete the task and recreate it"},
		"a gang may not become elastic":      {`{"spec": {"maxReplicas": 5}}`, "spec.maxReplicas: Invalid value: " + immutable},
		"a gang may not become an array":     {`{"spec": {"completions": 5, "minAvailable": null, "topology": null}}`, "spec.completions: Invalid value: " + immutable},
		"a gang may not get roles":           {`{"spec": {"roles": [{"name": "a"}], "replicas": 1, "minAvailable": null}}`, "spec.roles: Invalid value: the roles and their order are immutable: delete the task and recreate it"},
		"the success policy may not change":  {`{"spec": {"successPolicy": {"rules": [{"succeededCount": 1}]}}}`, "spec.successPolicy: Invalid value: " + immutable},
		"minAvailable may not change":        {`{"spec": {"minAvailable": 1}}`, "spec.minAvailable: Invalid value: " + immutable},
		"minAvailable may not be dropped":    {`{"spec": {"minAvailable": null}}`, "spec.minAvailable: Invalid value: " + immutable},
		"the level may not change":           {`{"spec": {"topology": {"level": "rack"}}}`, "spec.topology: Invalid value: " + immutable},
		"the topology's mode may not change": {`{"spec": {"topology": {"mode": "Required"}}}`, "spec.topology: Invalid value: " + immutable},
		"the topology may not be dropped":    {`{"spec": {"topology": null}}`, "spec.topology: Invalid value: " + immutable},
		"a whole GPU may not become a share": {`{"spec": {"gpu-amount": "0.5"}}`, immutable},
		"the template may not change":        {`{"spec": {"template": {"metadata": {"annotations": {"a": "c"}}}}}`, "spec.template: Invalid value: " + unlessSuspended},
		"nor while it is being suspended":    {`{"spec": {"suspend": true, "template": {"metadata": {"annotations": {"a": "c"}}}}}`, "spec.template: Invalid value: " + unlessSuspended},
		"failure rules may not change":       {`{"spec": {"failureRules": [{"action": "Ignore", "onReasons": ["a"]}]}}`, "spec.failureRules: Invalid value: " + immutable},
		"onLostPod may not change":           {`{"spec": {"onLostPod": "RestartTask"}}`, "spec.onLostPod: Invalid value: " + immutable},
		"the run time may change":            {`{"spec": {"maxRuntimeSeconds": 5}}`, ""},
		"the rendezvous may not change":      {`{"spec": {"rendezvous": "None"}}`, "spec.rendezvous: Invalid value: " + immutable},
		"dependencies may not change":        {`{"spec": {"dependsOn": [{"name": "another"}]}}`, "spec.dependsOn: Invalid value: " + immutable},
		"the failure policy may not change":  {`{"spec": {"failurePolicy": "RestartPod"}}`, "spec.failurePolicy: Invalid value: " + immutable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &v1.GPUTask{}
			if err := yaml.Unmarshal([]byte(original), object); err != nil {
				t.Fatal(err)
			}
			object.GenerateName = "task-"
			task, err := s.tasks().Create(t.Context(), object, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.tasks().Patch(t.Context(), task.Name, types.MergePatchType, []byte(tc.patch), metav1.PatchOptions{})
			checkRefusal(t, err, tc.want)
		})
	}
}

// checkRefusal fails the test unless the error contains the text, or is nil if the text
// is empty.
func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("accepted, want a refusal with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("refused with %q,\nwant %q in it", err, want)
	}
}
