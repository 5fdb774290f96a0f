{{/*
manifest prints a file that "kubectl apply -k artifacts" installs as well, with the namespaces of
this release. Its arguments are root ($) and file.
*/}}
{{- define "gpu-controller.manifest" -}}
{{- $text := .root.Files.Get .file -}}
{{- if not $text }}{{ fail (printf "the chart lacks the file %s: if it comes from a checkout of the repository, it has to be the whole repository" .file) }}{{ end -}}
{{- $text | replace "nodeagent-system" "(agents)" | replace "gpu-controller-system" .root.Release.Namespace | replace "(agents)" .root.Values.namespaces.nodeagent.name -}}
{{- end }}

{{/*
substitute replaces something in a text, and fails if it is not there: then the manifest has been
changed, but not the template that depends on it. Its arguments are text, old and new.
*/}}
{{- define "gpu-controller.substitute" -}}
{{- if not (contains .old .text) }}{{ fail (printf "the manifest no longer contains %q" .old) }}{{ end -}}
{{- .text | replace .old .new -}}
{{- end }}

{{/*
image prints the name of a process' image. Its arguments are root and process (its values).
*/}}
{{- define "gpu-controller.image" -}}
{{- $image := .process.image -}}
{{- $registry := $image.registry | default .root.Values.image.registry -}}
{{- $name := $image.repository -}}
{{- if $registry }}{{ $name = printf "%s/%s" (trimSuffix "/" $registry) $name }}{{ end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{/*
value prints the value of a flag. Helm reads all numbers as floating-point numbers, and would print
large ones as 5e+06.
*/}}
{{- define "gpu-controller.value" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ toString . }}{{ end -}}
{{- end }}

{{/*
args prints the arguments of a process as a YAML list: its flags, then the extra ones. A list is a
flag that is repeated. Its arguments are flags and extra.
*/}}
{{- define "gpu-controller.args" -}}
{{- range $name, $value := .flags }}
{{- if kindIs "slice" $value }}
{{- range $value }}
- {{ printf "--%s=%s" $name (include "gpu-controller.value" .) | quote }}
{{- end }}
{{- else if not (kindIs "invalid" $value) }}
- {{ printf "--%s=%s" $name (include "gpu-controller.value" $value) | quote }}
{{- end }}
{{- end }}
{{- range .extra }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/*
port prints the port of an address such as :8080, and nothing for 0, which is none.
*/}}
{{- define "gpu-controller.port" -}}
{{- if ne (toString .) "0" }}{{ regexFind "[0-9]+$" (toString .) }}{{ end -}}
{{- end }}

{{/*
env prints the environment variables of a process' values.
*/}}
{{- define "gpu-controller.env" -}}
{{- range $name, $value := .env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- with .extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
podMeta prints the labels and annotations of a process' Pods. Its arguments are process, labels and
annotations; what the values say takes precedence over the annotations, but not over the labels, as
selectors depend on these.
*/}}
{{- define "gpu-controller.podMeta" -}}
labels:
  {{- merge (deepCopy .labels) .process.podLabels | toYaml | nindent 2 }}
{{- with mergeOverwrite (deepCopy .annotations) .process.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
pod prints the fields of a Pod that are values of a process as they are. Its arguments are root and
process.
*/}}
{{- define "gpu-controller.pod" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $process := .process }}
{{- range $field := list "priorityClassName" "terminationGracePeriodSeconds" "runtimeClassName" "hostPID" "hostNetwork" "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" }}
{{- $value := get $process $field }}
{{- if or $value (eq (toString $value) "0") }}
{{ dict $field $value | toYaml }}
{{- end }}
{{- end }}
{{- with .process.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
serving sets the flags of a process that follow from metrics.secure, unless they are values. Its arguments are root and
flags.
*/}}
{{- define "gpu-controller.serving" -}}
{{- if and .root.Values.metrics.secure (not (hasKey .flags "metrics-secure")) }}{{ $_ := set .flags "metrics-secure" true }}{{ end -}}
{{- end }}

{{/*
scrape prints the annotations by which Prometheus finds a process. Its arguments are port, of which nothing is none, and
flags.
*/}}
{{- define "gpu-controller.scrape" -}}
{{- if .port }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .port | quote }}
{{- if get .flags "metrics-secure" }}
prometheus.io/scheme: https
{{- end }}
{{- end }}
{{- end }}

{{/*
probes prints the probes of a process that answers /healthz and /readyz at the port http. Its argument is the flags.
*/}}
{{- define "gpu-controller.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: http
    {{- if get . "metrics-secure" }}
    scheme: HTTPS
    {{- end }}
  initialDelaySeconds: 10
  periodSeconds: 10
readinessProbe:
  httpGet:
    path: /readyz
    port: http
    {{- if get . "metrics-secure" }}
    scheme: HTTPS
    {{- end }}
  periodSeconds: 5
{{- end }}

{{/*
podDisruptionBudget prints that of a Deployment. Its arguments are root, name and process.
*/}}
{{- define "gpu-controller.podDisruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
spec:
  maxUnavailable: {{ .process.podDisruptionBudget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
{{- end }}
