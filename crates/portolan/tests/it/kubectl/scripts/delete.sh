# delete: by name, by selector, from a file, now or gracefully; what it says and what is left.

for name in a b c d e f; do quietly kubectl create configmap $name; done
quietly kubectl label configmap c d sel=1
run kubectl delete configmap a
run kubectl delete configmap a
run kubectl delete configmap a --ignore-not-found
run kubectl delete configmap/b configmap/none
run kubectl delete configmap -l sel=1
run kubectl delete configmap e --dry-run=server
run kubectl delete configmap e --dry-run=client
run kubectl delete configmap e -o name
run kubectl delete -f- <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: f}
END
run kubectl get configmap -o name
run kubectl delete configmap
run kubectl delete configmap x --all

# What has finalizers stays until they are gone.
quietly kubectl create -f- <<'END'
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
END
run kubectl delete configmap held --wait=false
run kubectl get configmap held -o 'jsonpath={.metadata.finalizers} {.metadata.deletionGracePeriodSeconds}'
run kubectl delete configmap held --timeout=1s
run kubectl patch configmap held --type=merge -p '{"metadata": {"finalizers": ["example.com/more", "example.com/hold"]}}'
exec 3< <(kubectl delete configmap held 2>&1)
read -r line <&3 && printf '%s\n' "$line"
quietly kubectl patch configmap held --type=json -p '[{"op": "remove", "path": "/metadata/finalizers"}]'
cat <&3

# Pods with a node end gracefully, others at once.
quietly kubectl create -f- <<'END'
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: free}, spec: {containers: [{name: m, image: i}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: bound}, spec: {nodeName: "n", containers: [{name: m, image: i}]}}
END
run kubectl delete pod free
run kubectl delete pod bound --wait=false
run kubectl get pod bound
run kubectl get pod bound -o 'jsonpath={.metadata.deletionGracePeriodSeconds}'
run kubectl delete pod bound --wait=false --grace-period=5
run kubectl get pod bound -o 'jsonpath={.metadata.deletionGracePeriodSeconds}'
run kubectl delete pod bound --now --wait=false
run kubectl delete pod bound --force
run kubectl get pod bound

# How far a deletion goes is said with it.
replica_set() { printf '{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "%s"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "m", "image": "i"}]}}}}' "$1"; }
quietly kubectl create -f- < <(replica_set background)
run kubectl delete replicaset background --cascade=background
run kubectl delete replicaset background --cascade=sideways
