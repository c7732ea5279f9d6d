{{- define "nodewall.image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{- define "nodewall.config" -}}
{{ printf "%s\n" (toYaml .Values.agentConfig) }}
{{- end }}

{{- define "nodewall.agentsPort" -}}{{ (.Values.agentConfig.controllerPorts).agents | default 8443 }}{{- end }}
{{- define "nodewall.webhookPort" -}}{{ (.Values.agentConfig.controllerPorts).webhook | default 9443 }}{{- end }}

{{- /*
The name has the hash of the content, so that a change rolls through the nodes, and an older release finds what it had.
The hash is that of kustomize, which leaves the name out of it.
*/}}
{{- define "nodewall.configName" -}}
{{- $data := dict "config.yaml" (include "nodewall.config" .) -}}
{{- $hash := dict "kind" "ConfigMap" "name" "" "data" $data | toJson | sha256sum | trunc 10 -}}
nodewall-agent-{{ $hash | replace "0" "g" | replace "1" "h" | replace "3" "k" | replace "a" "m" | replace "e" "t" }}
{{- end }}

{{- /* Of what is there while the release is removed, and no longer. */}}
{{- define "nodewall.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
helm.sh/hook-output-log-policy: hook-failed
{{- end }}
