# describe: the object, what belongs to it, and its events.

quietly kubectl create -f- <<'END'
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: x}, annotations: {note: "1"}}, data: {k: "10"}, binaryData: {b: AAEC}}
- {apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: v}}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}}
- {apiVersion: v1, kind: Service, metadata: {name: svc}, spec: {selector: {app: x}, ports: [{port: 80, targetPort: http, name: p}]}}
- {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: svc-1, labels: {kubernetes.io/service-name: svc}}, addressType: IPv4, ports: [{port: 80, name: p}], endpoints: [{addresses: [10.0.0.1]}]}
- {apiVersion: v1, kind: Pod, metadata: {name: p1, labels: {app: x}}, spec: {nodeName: describe-node, containers: [{name: m, image: i, ports: [{containerPort: 80}], env: [{name: A, value: b}], resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: "1"}}, readinessProbe: {httpGet: {port: 80}}, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, configMap: {name: a}}]}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: m, image: i}]}}}}
- {apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: ing}, spec: {rules: [{host: h, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: svc, port: {number: 80}}}}]}}]}}
- {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: np}, spec: {podSelector: {matchLabels: {app: x}}, ingress: [{from: [{podSelector: {}}], ports: [{port: 80}]}]}}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: rb}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}, subjects: [{kind: ServiceAccount, name: sa, namespace: describe}]}
- {apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: l}, spec: {holderIdentity: me, leaseDurationSeconds: 5}}
- {apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: "100"}}}
- {apiVersion: v1, kind: Node, metadata: {name: describe-node}, spec: {podCIDR: 10.1.0.0/24}}
END
quietly kubectl patch node describe-node --subresource=status -p '{"status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}], "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "m"}]}}'
uid=$(kubectl get pod p1 -o 'jsonpath={.metadata.uid}')
quietly kubectl create -f- <<END
apiVersion: v1
kind: Event
metadata: {name: e1}
involvedObject: {apiVersion: v1, kind: Pod, name: p1, namespace: $NAMESPACE, uid: $uid}
reason: Sailed
message: it left the harbour
type: Normal
source: {component: captain}
firstTimestamp: "$(date -u +%FT%TZ)"
lastTimestamp: "$(date -u +%FT%TZ)"
count: 1
END
run kubectl describe configmap/a secret/s serviceaccount/sa endpointslice/svc-1 pod/p1 deployment/d ingress/ing \
  networkpolicy/np role/r rolebinding/rb lease/l resourcequota/q node/describe-node namespace/describe
# kube-apiserver may find that it has not yet noted an address that it gave out, and says so by an Event.
run kubectl describe service/svc --show-events=false
run kubectl describe pods -l app=x --show-events=false
run kubectl describe pod p
run kubectl describe pod none
run kubectl describe clusterrole view-nothing
quietly kubectl delete node describe-node
