{{/*
labels prints the labels of all objects. Its argument is root ($).
*/}}
{{- define "gpu-controller.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: gpu-controller
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/part-of: gpu-controller
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/*
labelsOf prints those of an object of one process. Its arguments are root, name and component.
*/}}
{{- define "gpu-controller.labelsOf" -}}
{{- $own := dict "app.kubernetes.io/name" .name "app.kubernetes.io/component" .component -}}
{{- mergeOverwrite (include "gpu-controller.labels" .root | fromYaml) $own | toYaml -}}
{{- end }}

{{/*
labelled prints a text with several objects, with these labels. Its arguments are root and text.
*/}}
{{- define "gpu-controller.labelled" -}}
{{- $labels := include "gpu-controller.labels" .root | fromYaml -}}
{{- $documents := list -}}
{{- range splitList "\n---\n" .text -}}
{{- if regexMatch "(?m)^  labels:\n" . -}}
{{- $others := $labels -}}
{{- if regexMatch "(?m)^    app\\.kubernetes\\.io/name: " . }}{{ $others = omit $labels "app.kubernetes.io/name" }}{{ end -}}
{{- $documents = append $documents (regexReplaceAllLiteral "(?m)^  labels:\n" . (printf "  labels:%s\n" (toYaml $others | nindent 4))) -}}
{{- else -}}
{{- $documents = append $documents (regexReplaceAllLiteral "(?m)^metadata:\n" . (printf "metadata:\n  labels:%s\n" (toYaml $labels | nindent 4))) -}}
{{- end -}}
{{- end -}}
{{- join "\n---\n" $documents -}}
{{- end }}

{{/*
manifest prints a file that "kubectl apply -k artifacts" installs as well, with the namespaces and the
labels of this release. Its arguments are root ($) and file.
*/}}
{{- define "gpu-controller.manifest" -}}
{{- $text := .root.Files.Get .file -}}
{{- if not $text }}{{ fail (printf "the chart lacks the file %s: if it comes from a checkout of the repository, it has to be the whole repository" .file) }}{{ end -}}
{{- $text = $text | replace "nodeagent-system" "(agents)" | replace "gpu-controller-system" .root.Release.Namespace | replace "(agents)" .root.Values.namespaces.nodeagent.name -}}
{{- include "gpu-controller.labelled" (dict "root" .root "text" $text) -}}
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
withLabels adds labels to the objects of a kind, a regular expression, in a text with several objects that
have labels. Its arguments are text, kind and labels.
*/}}
{{- define "gpu-controller.withLabels" -}}
{{- $documents := list -}}
{{- $labels := .labels -}}
{{- $kind := printf "(?m)^kind: %s$" .kind -}}
{{- range splitList "\n---\n" .text -}}
{{- $document := . -}}
{{- if and $labels (regexMatch $kind .) }}{{ $document = regexReplaceAllLiteral "(?m)^  labels:\n" . (printf "  labels:%s\n" (toYaml $labels | nindent 4)) }}{{ end -}}
{{- $documents = append $documents $document -}}
{{- end -}}
{{- join "\n---\n" $documents -}}
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
{{- $tag := $image.tag | default .root.Values.image.tag -}}
{{- $digest := get .root.Values.image.digests $image.repository -}}
{{- if $tag }}{{ $digest = "" }}{{ end -}}
{{- printf "%s:%s" $name ($tag | default .root.Chart.AppVersion) -}}{{ with $digest }}@{{ . }}{{ end -}}
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
podMeta prints the labels and annotations of a process' Pods. Its arguments are root, process, labels and
annotations; what the values say takes precedence over the annotations, but not over the labels, as
selectors depend on these. Another version of the chart alone restarts no Pod.
*/}}
{{- define "gpu-controller.podMeta" -}}
labels:
  {{- $common := omit (include "gpu-controller.labels" .root | fromYaml) "helm.sh/chart" }}
  {{- merge (deepCopy .labels) .process.podLabels $common | toYaml | nindent 2 }}
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
  labels:
    {{- include "gpu-controller.labelsOf" . | nindent 4 }}
spec:
  maxUnavailable: {{ .process.podDisruptionBudget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
{{- end }}
