# The ways to look at objects.

quietly kubectl create -f- <<'END'
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: x, "n": "1"}}, data: {k: "10"}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, labels: {app: x, "n": "2"}}, data: {k: "9", l: "1"}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {app: "y"}}, binaryData: {k: AAEC}}
- {apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: v}}
- {apiVersion: v1, kind: Service, metadata: {name: svc}, spec: {selector: {app: x}, ports: [{port: 80}]}}
- {apiVersion: v1, kind: Service, metadata: {name: np}, spec: {type: NodePort, ports: [{name: a, port: 80}, {name: b, port: 53, protocol: UDP}]}}
- {apiVersion: v1, kind: Service, metadata: {name: ext}, spec: {type: ExternalName, externalName: example.com}}
- {apiVersion: v1, kind: Pod, metadata: {name: p1, labels: {app: x}}, spec: {nodeName: n1, containers: [{name: m, image: i}, {name: o, image: j}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: p2, labels: {app: "y"}}, spec: {containers: [{name: m, image: i}], readinessGates: [{conditionType: a/b}]}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: m, image: i}]}}}}
- {apiVersion: apps/v1, kind: StatefulSet, metadata: {name: ss}, spec: {serviceName: svc, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: m, image: i}]}}}}
- {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: ds}, spec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {nodeSelector: {a: b}, containers: [{name: m, image: i}]}}}}
- {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: rs}, spec: {replicas: 2, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: m, image: i}]}}}}
- {apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {completions: 3, template: {spec: {restartPolicy: Never, containers: [{name: m, image: i}]}}}}
- {apiVersion: batch/v1, kind: CronJob, metadata: {name: cj}, spec: {schedule: "1 2 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: m, image: i}]}}}}}}
- {apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: ing}, spec: {ingressClassName: c, tls: [{hosts: [h]}], rules: [{host: h, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: svc, port: {number: 80}}}}]}}]}}
- {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: np}, spec: {podSelector: {matchLabels: {app: x}}}}
- {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: es}, addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}]}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: rb}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}, subjects: [{kind: User, name: u, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: sa, namespace: get}]}
- {apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: l}, spec: {holderIdentity: me, leaseDurationSeconds: 5}}
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: pvc}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
- {apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: "100"}}}
- {apiVersion: v1, kind: LimitRange, metadata: {name: lr}, spec: {limits: [{type: PersistentVolumeClaim, max: {storage: 2Gi}}]}}
- {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: pdb}, spec: {minAvailable: 1, selector: {matchLabels: {app: x}}}}
END

kinds=configmaps,secrets,services,pods,deployments,statefulsets,daemonsets,replicasets,jobs,cronjobs,ingresses,networkpolicies
kinds=$kinds,endpointslices,serviceaccounts,roles,rolebindings,leases,persistentvolumeclaims,resourcequotas,limitranges,poddisruptionbudgets
run kubectl get $kinds
run kubectl get $kinds -o wide --show-labels
run kubectl get all
run kubectl get configmap a
run kubectl get cm/a secret/s
run kubectl get cm a -o yaml
run kubectl get cm a -o json
run kubectl get cm -l app=x -o yaml
run kubectl get cm -o json -l 'n in (1, 2), app!=y'
run kubectl get cm -l '!n'
run kubectl get cm -L app,n
run kubectl get cm -l 'a b'
run kubectl get cm --sort-by=.data.k
run kubectl get cm --sort-by='{.metadata.labels.n}'
run kubectl get cm --chunk-size=1
run kubectl get cm -o 'jsonpath={range .items[*]}{.metadata.name}: {.data.k}{"\n"}{end}'
run kubectl get cm -o 'jsonpath-as-json={.items[0].data}'
run kubectl get cm -o 'custom-columns=NAME:.metadata.name,K:.data.k,NONE:.data.none'
run kubectl get cm -o 'go-template={{range .items}}{{.metadata.name}} {{end}}'
run kubectl get cm --field-selector metadata.name=b
run kubectl get cm --field-selector metadata.name!=b
run kubectl get cm --field-selector data.k=10
run kubectl get pod --field-selector spec.nodeName=n1 -o wide
run kubectl get pod --field-selector spec.nodeName=,status.phase=Pending
run kubectl get pod p1 -o yaml
run kubectl get pods -A -l app=y
run kubectl get cm nothing
run kubectl get cm nothing --ignore-not-found
run kubectl get nothings
run kubectl get cm a nothing
run kubectl get secret s -o 'jsonpath={.data.k}'
run kubectl get namespace get -o yaml
run kubectl get --raw /nothing
run kubectl get --raw /healthz
run kubectl get cm -n none
run kubectl get service/np cronjob/cj statefulset/ss -o yaml
