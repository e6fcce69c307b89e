# Events, of both APIs.

at() { date -u -d "-$1 minutes" +%FT%TZ; }
quietly kubectl create -f- <<END
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Event, metadata: {name: one}, involvedObject: {apiVersion: v1, kind: Pod, name: p, namespace: $NAMESPACE}, reason: R1, message: first, type: Normal, source: {component: c, host: h}, firstTimestamp: "$(at 9)", lastTimestamp: "$(at 5)", count: 7}
- {apiVersion: v1, kind: Event, metadata: {name: two}, involvedObject: {apiVersion: v1, kind: Secret, name: s, namespace: $NAMESPACE}, reason: R2, message: second, type: Warning, source: {component: c}, firstTimestamp: "$(at 3)", lastTimestamp: "$(at 3)", count: 1}
- {apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: three}, regarding: {apiVersion: apps/v1, kind: Deployment, name: d, namespace: $NAMESPACE}, reason: R3, action: A, note: third, type: Normal, reportingController: example.com/c, reportingInstance: i, eventTime: "$(date -u -d '-1 minutes' +%FT%T.000000Z)"}
END
run kubectl get events --sort-by=.metadata.name
run kubectl get events -o wide --sort-by=.metadata.name
run kubectl events
run kubectl events --for pod/p
run kubectl events --types=Warning
run kubectl get events --field-selector involvedObject.name=p
run kubectl get events --field-selector type=Warning,reason=R2 -o name
run kubectl get events.events.k8s.io --sort-by=.metadata.name
run kubectl get events.events.k8s.io one -o yaml
run kubectl get events three -o yaml
run kubectl describe event two
