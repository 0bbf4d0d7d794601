{{- define "codeq.name" -}}
{{- .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "codeq.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "codeq.selector" -}}
app.kubernetes.io/name: {{ include "codeq.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "codeq.labels" -}}
{{ include "codeq.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "codeq.embedded" -}}
{{- if eq .Values.store.provider "embedded" }}yes{{ end -}}
{{- end -}}

{{/* The server's settings: what follows from the values, and on top of it `config`. */}}
{{- define "codeq.config" -}}
{{- $config := dict "port" 8080 -}}
{{- if include "codeq.embedded" . -}}
{{- $_ := set $config "persistenceProvider" "embedded" -}}
{{- $_ := set $config "persistenceConfig" (dict "path" "/var/lib/codeq/data" "numShards" (int .Values.store.embedded.shards)) -}}
{{- else -}}
{{- $_ := set $config "persistenceProvider" "kvrocks" -}}
{{- $_ := set $config "persistenceConfig" (include "codeq.kvrocks" . | fromYaml) -}}
{{- if or .Values.store.kvrocks.spread .Values.store.kvrocks.backends -}}
{{- $_ := set $config "sharding" (include "codeq.sharding" . | fromYaml) -}}
{{- end -}}
{{- end -}}
{{- if .Values.streams.workerPort -}}
{{- $_ := set $config "workerStreamAddr" (printf ":%d" (int .Values.streams.workerPort)) -}}
{{- end -}}
{{- if .Values.streams.producerPort -}}
{{- $_ := set $config "producerStreamAddr" (printf ":%d" (int .Values.streams.producerPort)) -}}
{{- end -}}
{{- if .Values.tls.secretName -}}
{{- $_ := set $config "tls" (dict "certFile" "/etc/codeq-tls/tls.crt" "keyFile" "/etc/codeq-tls/tls.key") -}}
{{- end -}}
{{- mergeOverwrite $config .Values.config | toYaml -}}
{{- end -}}

{{/* Where the store is. */}}
{{- define "codeq.kvrocks" -}}
{{- $kvrocks := .Values.store.kvrocks -}}
{{- $found := dict "cluster" $kvrocks.cluster "waitReplicas" (int $kvrocks.waitReplicas) -}}
{{- if $kvrocks.sentinel -}}
{{- $_ := set $found "sentinel" $kvrocks.sentinel -}}
{{- else if $kvrocks.addr -}}
{{- $_ := set $found "addr" $kvrocks.addr -}}
{{- end -}}
{{- $found | toYaml -}}
{{- end -}}

{{/* Which queues live on which server. */}}
{{- define "codeq.sharding" -}}
{{- $kvrocks := .Values.store.kvrocks -}}
{{- $sharding := dict "enabled" true "spread" $kvrocks.spread -}}
{{- if $kvrocks.backends -}}
{{- $_ := set $sharding "backends" $kvrocks.backends -}}
{{- $_ := set $sharding "defaultShard" $kvrocks.defaultShard -}}
{{- if $kvrocks.spread -}}
{{- $_ := set $sharding "spreadOver" (keys $kvrocks.backends | sortAlpha) -}}
{{- end -}}
{{- end -}}
{{- $sharding | toYaml -}}
{{- end -}}

{{/* The variables of the Secret. */}}
{{- define "codeq.secrets" -}}
{{- $secrets := deepCopy .Values.secrets -}}
{{- if .Values.store.kvrocks.password -}}
{{- $_ := set $secrets "KVROCKS_PASSWORD" .Values.store.kvrocks.password -}}
{{- end -}}
{{- $secrets | toYaml -}}
{{- end -}}
