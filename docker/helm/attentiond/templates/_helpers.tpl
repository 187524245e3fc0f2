{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "attentiond.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{/* What pods are chosen by: it stays the same over a release's life. */}}
{{- define "attentiond.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "attentiond.labels" -}}
{{ include "attentiond.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "attentiond.image" -}}
{{- $image := .Values.image -}}
{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The daemon's options as name: value; the chart's own and those of values.options. */}}
{{- define "attentiond.options" -}}
listen: {{ printf "%s:8080" .Values.address | quote }}
ops_listen: {{ printf "%s:9090" .Values.address | quote }}
lame_duck: {{ .Values.drain.lameDuck }}s
drain_timeout: {{ .Values.drain.timeout }}s
{{- if .Values.insecure }}
insecure: "on"
{{- else }}
key_file: {{ printf "/etc/attentiond/keys/%s" .Values.keys.file | quote }}
{{- end }}
{{- if .Values.tls.secret }}
tls_certificate: /etc/attentiond/tls/tls.crt
tls_key: /etc/attentiond/tls/tls.key
{{- with .Values.tls.clientCa }}
tls_client_ca: {{ printf "/etc/attentiond/tls/%s" . | quote }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.options }}
{{ $name }}: {{ (kindIs "bool" $value | ternary (ternary "on" "off" (eq (toString $value) "true")) (toString $value)) | quote }}
{{- end }}
{{- end }}
