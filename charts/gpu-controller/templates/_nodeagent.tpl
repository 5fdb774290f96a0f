{{/*
nodeagent.probe prints the data of the ConfigMap with the targets and modules of /probe.
*/}}
{{- define "gpu-controller.nodeagent.probe" -}}
targets.yaml: |
  {{- toYaml .Values.nodeagent.probe.targets | nindent 2 }}
modules.yaml: |
  {{- if .Values.nodeagent.probe.modules }}
  {{- dict "modules" .Values.nodeagent.probe.modules | toYaml | nindent 2 }}
  {{- else }}
  {{- .Files.Get "files/probe-modules.yaml" | nindent 2 }}
  {{- end }}
{{- end }}

{{/*
nodeVolumes prints the volumes and nodeMounts the mounts of what a program on a node needs for CDI:
the folder for the specifications, and the node's files. Their argument is the program's flags.
*/}}
{{- define "gpu-controller.nodeMounts" -}}
{{- $root := get . "host-root" | default "/" | trimSuffix "/" }}
# Where the GPUs are described for the container runtime (CDI).
- name: cdi
  mountPath: {{ get . "cdi-spec-dir" | default "/var/run/cdi" | quote }}
# What is described: NVIDIA's driver, wherever it is installed.
- name: usr
  mountPath: {{ printf "%s/usr" $root | quote }}
  readOnly: true
- name: dev
  mountPath: {{ printf "%s/dev" $root | quote }}
  readOnly: true
- name: run-nvidia
  mountPath: {{ printf "%s/run/nvidia" $root | quote }}
  readOnly: true
  mountPropagation: HostToContainer
{{- end }}

{{- define "gpu-controller.nodeVolumes" -}}
- name: cdi
  hostPath:
    path: {{ get . "cdi-spec-dir" | default "/var/run/cdi" | quote }}
    type: DirectoryOrCreate
- name: usr
  hostPath:
    path: /usr
    type: Directory
- name: dev
  hostPath:
    path: /dev
    type: Directory
- name: run-nvidia
  hostPath:
    path: /run/nvidia
    type: DirectoryOrCreate
{{- end }}

{{/*
nodeagent.daemonset prints a DaemonSet of agents. Its arguments are root, name, labels (of this
DaemonSet only), flags, affinity and nodeSelector.
*/}}
{{- define "gpu-controller.nodeagent.daemonset" -}}
{{- $root := .root }}
{{- $process := mergeOverwrite (deepCopy .root.Values.nodeagent) (dict "flags" .flags) }}
{{- $_ := set $process "affinity" .affinity }}
{{- $_ := set $process "nodeSelector" .nodeSelector }}
{{- $flags := $process.flags }}
{{- include "gpu-controller.serving" (dict "root" $root "flags" $flags) }}
{{- $port := include "gpu-controller.port" (get $flags "bind-address") }}
{{- $kubelet := get $flags "kubelet-directory" | default "/var/lib/kubelet" | trimSuffix "/" }}
{{- $labels := merge (dict "app.kubernetes.io/name" "nodeagent") .labels }}
{{- $own := merge (deepCopy $labels) (dict "app.kubernetes.io/component" "agent") }}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name }}
  namespace: {{ $root.Values.namespaces.nodeagent.name }}
  labels:
    {{- merge (deepCopy $own) (include "gpu-controller.labels" $root | fromYaml) | toYaml | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- toYaml $labels | nindent 6 }}
  updateStrategy:
    {{- toYaml $process.updateStrategy | nindent 4 }}
  template:
    metadata:
      {{- $annotations := dict "checksum/probe" (include "gpu-controller.nodeagent.probe" $root | sha256sum) }}
      {{- $annotations = merge $annotations (include "gpu-controller.scrape" (dict "port" $port "flags" $flags) | fromYaml) }}
      {{- include "gpu-controller.podMeta" (dict "root" $root "process" $process "labels" $own "annotations" $annotations) | nindent 6 }}
    spec:
      serviceAccountName: nodeagent
      {{- include "gpu-controller.pod" (dict "root" $root "process" $process) | nindent 6 }}
      containers:
        - name: nodeagent
          image: {{ include "gpu-controller.image" (dict "root" $root "process" $process) | quote }}
          imagePullPolicy: {{ $process.image.pullPolicy | default $root.Values.image.pullPolicy }}
          args:
            {{- include "gpu-controller.args" (dict "flags" $flags "extra" $process.extraArgs) | nindent 12 }}
          env:
            - name: NODE_NAME
              valueFrom:
                fieldRef:
                  fieldPath: spec.nodeName
            - name: POD_IP
              valueFrom:
                fieldRef:
                  fieldPath: status.podIP
            {{- include "gpu-controller.env" $process | nindent 12 }}
          {{- if $port }}
          ports:
            - name: http
              containerPort: {{ $port }}
          {{- include "gpu-controller.probes" $flags | nindent 10 }}
          {{- end }}
          resources:
            {{- toYaml $process.resources | nindent 12 }}
          securityContext:
            {{- toYaml $process.securityContext | nindent 12 }}
          volumeMounts:
            - name: device-plugins
              mountPath: {{ printf "%s/device-plugins" $kubelet | quote }}
            - name: pod-resources
              mountPath: {{ printf "%s/pod-resources" $kubelet | quote }}
              readOnly: true
            - name: probe
              mountPath: /etc/nodeagent-probe
              readOnly: true
            {{- include "gpu-controller.nodeMounts" $flags | nindent 12 }}
            {{- with $process.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: device-plugins
          hostPath:
            path: {{ printf "%s/device-plugins" $kubelet | quote }}
            type: Directory
        - name: pod-resources
          hostPath:
            path: {{ printf "%s/pod-resources" $kubelet | quote }}
            type: Directory
        - name: probe
          configMap:
            name: nodeagent-probe
        {{- include "gpu-controller.nodeVolumes" $flags | nindent 8 }}
        {{- with $process.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}
