{{- define "kelpie.selector" -}}
app.kubernetes.io/name: kelpie
app.kubernetes.io/component: operator
{{- end }}

{{- define "kelpie.labels" -}}
{{ include "kelpie.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "kelpie.image" -}}
{{- $image := index . 1 -}}
{{ $image.repository }}:{{ $image.tag | default (index . 0).Chart.AppVersion }}
{{- end }}

{{/* The rules of files/rbac.yaml for the places named. */}}
{{- define "kelpie.rules" -}}
{{- $places := rest . -}}
rules:
{{- range ((index . 0).Files.Get "files/rbac.yaml" | fromYaml).rows }}
{{- if has .in $places }}
- apiGroups: {{ toJson .apiGroups }}
  resources: {{ toJson .resources }}
  {{- with .resourceNames }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: {{ toJson .verbs }}
{{- end }}
{{- end }}
{{- if has "namespaces" $places }}
{{- range (index . 0).Values.workloadKinds }}
- apiGroups: {{ toJson (list .apiGroup) }}
  resources: {{ toJson (list .resource) }}
  verbs: ["get", "list", "watch"]
{{- end }}
{{- end }}
{{- end }}

{{- define "kelpie.subjects" -}}
subjects:
- kind: ServiceAccount
  name: kelpie-operator
  namespace: {{ .Release.Namespace }}
{{- end }}
