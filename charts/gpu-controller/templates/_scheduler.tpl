{{/*
scheduler.config prints the KubeSchedulerConfiguration: scheduler.config, or else ours, with
scheduler.pluginArgs. The lease is in the namespace of the release, where the scheduler may have one.
*/}}
{{- define "gpu-controller.scheduler.config" -}}
{{- $config := deepCopy .Values.scheduler.config -}}
{{- if not $config }}{{ $config = include "gpu-controller.manifest" (dict "root" . "file" "files/scheduler-config.yaml") | fromYaml }}{{ end -}}
{{- $lease := dict "resourceName" "gpu-scheduler" "resourceNamespace" .Release.Namespace -}}
{{- $_ := set $config "leaderElection" (merge (get $config "leaderElection" | default dict) $lease) -}}
{{- $found := dict -}}
{{- range $profile := $config.profiles -}}
{{- range $plugin := $profile.pluginConfig -}}
{{- with get $.Values.scheduler.pluginArgs $plugin.name -}}
{{- $_ := set $plugin "args" (mergeOverwrite (deepCopy $plugin.args) .) -}}
{{- $_ := set $found $plugin.name true -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := .Values.scheduler.pluginArgs -}}
{{- if not (hasKey $found $name) }}{{ fail (printf "scheduler.pluginArgs.%s: no profile of the configuration has arguments for this plugin; write them in scheduler.config" $name) }}{{ end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{/*
scheduler.names prints the schedulers that may place Pods that ask for GPUs, as a list in CEL: those of
the configuration, the one that tasks get which name none, and schedulerNames.others.
*/}}
{{- define "gpu-controller.scheduler.names" -}}
{{- $cluster := "default-scheduler" -}}
{{- $names := list -}}
{{- range (include "gpu-controller.scheduler.config" . | fromYaml).profiles | default (list dict) -}}
{{- $names = append $names (.schedulerName | default $cluster) -}}
{{- end -}}
{{- if .Values.controller.enabled }}{{ $names = append $names (get .Values.controller.flags "default-scheduler" | default $cluster) }}{{ end -}}
{{- printf "['%s']" (concat $names .Values.schedulerNames.others | uniq | join "', '") -}}
{{- end }}
