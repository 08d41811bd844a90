{{/* The chart's name, and the release's full name, which is the name of the objects. */}}
{{- define "nodeless.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- define "nodeless.fullname" -}}
{{- $name := include "nodeless.name" . }}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "nodeless.selector" -}}
app.kubernetes.io/name: {{ include "nodeless.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The metadata of an object. Call it with (list . NAME) or (list . NAME NAMESPACE), and indent it by 2. */}}
{{- define "nodeless.metadata" -}}
{{- $root := first . -}}
name: {{ index . 1 }}
{{- if gt (len .) 2 }}
namespace: {{ index . 2 }}
{{- end }}
labels:
  {{- include "nodeless.selector" $root | nindent 2 }}
  app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ $root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 }}
  {{- with $root.Values.additionalLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $root.Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "nodeless.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "nodeless.fullname" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "nodeless.subjects" -}}
- kind: ServiceAccount
  name: {{ include "nodeless.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "nodeless.leaseNamespace" -}}
{{ .Values.leaderElection.namespace | default .Release.Namespace }}
{{- end }}

{{/* "true" if the values name Karpenter's image, as values files of Karpenter's chart do. */}}
{{- define "nodeless.karpenterImage" -}}
{{- if regexMatch "(^|/)karpenter/controller$" .Values.controller.image.repository }}true{{ end }}
{{- end }}

{{- define "nodeless.image" -}}
{{- $i := .Values.controller.image }}
{{- if include "nodeless.karpenterImage" . }}ghcr.io/nodeless/controller:{{ .Chart.AppVersion }}
{{- else }}{{ $i.repository }}:{{ $i.tag | default .Chart.AppVersion }}{{ with $i.digest }}@{{ . }}{{ end }}
{{- end }}
{{- end }}

{{/* The settings and their environment variables. Karpenter's settings keep Karpenter's names. */}}
{{- define "nodeless.variables" -}}
clusterName: CLUSTER_NAME
clusterEndpoint: CLUSTER_ENDPOINT
clusterCABundle: CLUSTER_CA_BUNDLE
eksControlPlane: EKS_CONTROL_PLANE
isolatedVPC: ISOLATED_VPC
interruptionQueue: INTERRUPTION_QUEUE
waitPrice: NODELESS_WAIT_PRICE
movePrice: NODELESS_MOVE_PRICE
nodeFee: NODELESS_NODE_FEE
preferencePrice: NODELESS_PREFERENCE_PRICE
priorityCutoff: NODELESS_PRIORITY_CUTOFF
preflight: NODELESS_PREFLIGHT
batchIdleDuration: BATCH_IDLE_DURATION
batchMaxDuration: BATCH_MAX_DURATION
preferencePolicy: PREFERENCE_POLICY
minValuesPolicy: MIN_VALUES_POLICY
vmMemoryOverheadPercent: VM_MEMORY_OVERHEAD_PERCENT
reservedENIs: RESERVED_ENIS
enableZonalShift: ENABLE_ZONAL_SHIFT
ignoreDRARequests: IGNORE_DRA_REQUESTS
disableClusterStateObservability: DISABLE_CLUSTER_STATE_OBSERVABILITY
disableDryRun: DISABLE_DRY_RUN
amiRefreshInterval: AMI_REFRESH_INTERVAL
subnetRefreshInterval: SUBNET_REFRESH_INTERVAL
{{- end }}

{{- define "nodeless.env" -}}
{{- $root := . }}
{{- if not .Values.settings.clusterName }}
{{- fail "settings.clusterName is empty: give the cluster's name, such as --set settings.clusterName=prod" }}
{{- end }}
{{- range $key, $name := include "nodeless.variables" . | fromYaml }}
{{- $value := index $root.Values.settings $key }}
{{- /* Numbers of a values file are float64, which toString writes as 1e+06. */}}
{{- if and (kindIs "float64" $value) (eq $value (floor $value)) }}{{ $value = int64 $value }}{{ end }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- {name: {{ $name }}, value: {{ tpl (toString $value) $root | quote }}}
{{- end }}
{{- end }}
{{- $gates := list }}
{{- range $key, $on := .Values.settings.featureGates }}
{{- $gates = append $gates (printf "%s%s=%t" (substr 0 1 $key | upper) (substr 1 -1 $key) $on) }}
{{- end }}
- {name: FEATURE_GATES, value: {{ join "," $gates | quote }}}
- {name: LOG_LEVEL, value: {{ .Values.logLevel | quote }}}
- {name: NODELESS_LOG_FORMAT, value: {{ .Values.logFormat | quote }}}
- {name: LOG_OUTPUT_PATHS, value: {{ join "," .Values.logOutputPaths | quote }}}
- {name: LOG_ERROR_OUTPUT_PATHS, value: {{ join "," .Values.logErrorOutputPaths | quote }}}
- {name: METRICS_PORT, value: {{ .Values.controller.metrics.port | quote }}}
- {name: HEALTH_PROBE_PORT, value: {{ .Values.controller.healthProbe.port | quote }}}
- {name: LEADER_ELECTION_NAME, value: {{ .Values.leaderElection.name | quote }}}
- {name: KARPENTER_SERVICE, value: {{ include "nodeless.fullname" . | quote }}}
- {name: LEADER_ELECTION_NAMESPACE, value: {{ include "nodeless.leaseNamespace" . | quote }}}
{{- if .Values.page.enabled }}
- {name: NODELESS_PAGE, value: "0.0.0.0:{{ .Values.page.port }}"}
{{- if .Values.page.tlsSecretName }}
- {name: NODELESS_PAGE_TLS_CERT, value: /etc/nodeless/page/tls.crt}
- {name: NODELESS_PAGE_TLS_KEY, value: /etc/nodeless/page/tls.key}
{{- end }}
{{- end }}
{{- if .Values.fargate.enabled }}
- name: NODELESS_FARGATE_WEBHOOK
  value: https://{{ include "nodeless.fullname" . }}.{{ .Release.Namespace }}.svc
- {name: NODELESS_FARGATE_WEBHOOK_PORT, value: {{ .Values.fargate.webhookPort | quote }}}
{{- end }}
- name: SYSTEM_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: CPU_REQUESTS
  valueFrom: {resourceFieldRef: {containerName: {{ .Values.controller.containerName }}, divisor: 1m, resource: requests.cpu}}
- name: MEMORY_LIMIT
  valueFrom: {resourceFieldRef: {containerName: {{ .Values.controller.containerName }}, divisor: "0", resource: limits.memory}}
{{- with .Values.controller.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The affinity. Pod affinity terms without a labelSelector get one that selects the controller's pods. */}}
{{- define "nodeless.affinity" -}}
{{- $own := dict "matchLabels" (include "nodeless.selector" . | fromYaml) }}
{{- $affinity := deepCopy .Values.affinity }}
{{- range $kind := list "podAffinity" "podAntiAffinity" }}
{{- with index $affinity $kind }}
{{- range .requiredDuringSchedulingIgnoredDuringExecution }}
{{- if not .labelSelector }}{{ $_ := set . "labelSelector" $own }}{{ end }}
{{- end }}
{{- range .preferredDuringSchedulingIgnoredDuringExecution }}
{{- if not .podAffinityTerm.labelSelector }}{{ $_ := set .podAffinityTerm "labelSelector" $own }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}

{{- define "nodeless.spread" -}}
{{- $own := dict "matchLabels" (include "nodeless.selector" . | fromYaml) }}
{{- $constraints := deepCopy .Values.topologySpreadConstraints }}
{{- range $constraints }}
{{- if not .labelSelector }}{{ $_ := set . "labelSelector" $own }}{{ end }}
{{- end }}
{{- toYaml $constraints }}
{{- end }}

{{/* The securityContext of a container: nothing that the program does not need, unless the values say otherwise. */}}
{{- define "nodeless.securityContext" -}}
{{- $context := dict "privileged" false "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true
  "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "capabilities" (dict "drop" (list "ALL")) }}
{{- range $field, $value := .Values.controller.securityContext }}
{{- if $value }}{{ $_ := set $context $field $value }}{{ end }}
{{- end }}
{{- toYaml $context }}
{{- end }}
