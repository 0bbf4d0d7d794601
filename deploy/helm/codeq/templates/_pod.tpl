{{/* The pod, the same for a StatefulSet and a Deployment. */}}
{{- define "codeq.pod" -}}
metadata:
  labels:
    {{- include "codeq.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "codeq.config" . | sha256sum }}
    checksum/secrets: {{ include "codeq.secrets" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "codeq.fullname" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: codeq
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/codeq/config.yaml]
      {{- with .Values.env }}
      env:
        {{- range $name, $value := . }}
        - name: {{ $name }}
          value: {{ $value | quote }}
        {{- end }}
      {{- end }}
      envFrom:
        - secretRef:
            name: {{ include "codeq.fullname" . }}
        {{- with .Values.existingSecret }}
        - secretRef:
            name: {{ . }}
        {{- end }}
      ports:
        - name: http
          containerPort: 8080
        {{- if .Values.streams.workerPort }}
        - name: worker-stream
          containerPort: {{ .Values.streams.workerPort }}
        {{- end }}
        {{- if .Values.streams.producerPort }}
        - name: prod-stream
          containerPort: {{ .Values.streams.producerPort }}
        {{- end }}
      # A store with many live tasks takes its time to open: until then the server lives and is not ready.
      startupProbe:
        httpGet:
          path: /livez
          port: http
          {{- if .Values.tls.secretName }}
          scheme: HTTPS
          {{- end }}
        periodSeconds: 2
        failureThreshold: 30
      livenessProbe:
        httpGet:
          path: /livez
          port: http
          {{- if .Values.tls.secretName }}
          scheme: HTTPS
          {{- end }}
        periodSeconds: 10
        timeoutSeconds: 5
      readinessProbe:
        httpGet:
          path: /readyz
          port: http
          {{- if .Values.tls.secretName }}
          scheme: HTTPS
          {{- end }}
        periodSeconds: 5
        timeoutSeconds: 5
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: config
          mountPath: /etc/codeq
          readOnly: true
        - name: data
          mountPath: /var/lib/codeq
        - name: tmp
          mountPath: /tmp
        {{- if .Values.tls.secretName }}
        - name: tls
          mountPath: /etc/codeq-tls
          readOnly: true
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "codeq.fullname" . }}
    - name: tmp
      emptyDir: {}
    {{- with .Values.tls.secretName }}
    - name: tls
      secret:
        secretName: {{ . }}
    {{- end }}
    {{- if not (include "codeq.embedded" .) }}
    - name: data
      emptyDir: {}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
