# The three kinds of patches.

quietly kubectl create -f- <<'END'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: a, args: [x, z]}, {name: side, image: b}]
      tolerations: [{key: k, operator: Exists}]
END
containers='-o=jsonpath={range .spec.template.spec.containers[*]}{.name}={.image} {.args}{"\n"}{end}'

run kubectl patch deployment web -p '{"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "c"}]}}}}'
run kubectl get deployment web "$containers"
run kubectl patch deployment web -p '{"spec": {"template": {"spec": {"containers": [{"$patch": "delete", "name": "side"}, {"name": "third", "image": "d"}]}}}}'
run kubectl get deployment web "$containers"
run kubectl patch deployment web -p '{"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "third"}, {"name": "main"}], "containers": [{"name": "main", "args": null}]}}}}'
run kubectl get deployment web "$containers"
run kubectl patch deployment web -p '{"spec": {"template": {"spec": {"tolerations": [{"$patch": "replace"}, {"key": "l", "operator": "Exists"}]}}}}'
run kubectl get deployment web -o 'jsonpath={.spec.template.spec.tolerations}'
run kubectl patch deployment web -p '{"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}'
run kubectl get deployment web -o 'jsonpath={.spec.strategy}'
run kubectl patch deployment web --type=merge -p '{"spec": {"template": {"spec": {"containers": [{"name": "only", "image": "e"}]}}}}'
run kubectl get deployment web "$containers"
run kubectl patch deployment web --type=json -p '[{"op": "test", "path": "/spec/replicas", "value": 1}, {"op": "replace", "path": "/spec/replicas", "value": 4}, {"op": "add", "path": "/metadata/labels", "value": {"a~b": "x"}}]'
run kubectl patch deployment web --type=json -p '[{"op": "add", "path": "/metadata/labels", "value": {"a": "x"}}]'
run kubectl patch deployment web --type=json -p '[{"op": "test", "path": "/spec/replicas", "value": 7}]'
run kubectl patch deployment web --type=json -p '[{"op": "remove", "path": "/spec/nothing"}]'
run kubectl patch deployment web --type=json -p '{"op": "remove"}'
run kubectl patch deployment web -p 'replicas: 3'
run kubectl patch deployment web -p 'spec: {replicas: 3}'
run kubectl patch deployment web -p '{"spec": {"replicas": 3}}'
run kubectl patch deployment web -p '{"spec": {"replicas": "three"}}'
run kubectl patch deployment web -p '{"spec": {"replicas": 1.5}}'
run kubectl patch deployment web -p '{"spec": {"paused": "yes"}}'
run kubectl patch deployment web -p '{"spec": {"strategy": 5}}'
run kubectl patch deployment web -p '{"spec": {"strategy": {"rollingUpdate": {"maxSurge": true}}}}'
run kubectl patch deployment web -p '{"spec": {"selector": {"matchLabels": [1]}}}'
run kubectl patch deployment web -p '{"spec": {"template": {"spec": {"tolerations": "none", "dnsPolicy": null}}}}'
run kubectl patch deployment web -p '{"spec": {"template": {"spec": {"nodeName": {"x": 1}}}}}'
run kubectl patch deployment web -p '{"metadata": {"labels": {"a": 1}}}'
run kubectl patch deployment web -p '{"metadata": {"creationTimestamp": 5}}'
run kubectl patch deployment web -p '[]'
run kubectl patch deployment web -p '{"spec": {"replicas": -1}}'
run kubectl patch deployment web -p '{"metadata": {"name": "other"}}'
run kubectl patch deployment web --subresource=status -p '{"status": {"replicas": 3, "readyReplicas": 2}, "spec": {"replicas": 9}}'
run kubectl patch deployment web --subresource=scale --type=merge -p '{"spec": {"replicas": 6}}'
run kubectl get deployment web
run kubectl patch deployment web --dry-run=server -p '{"spec": {"replicas": 8}}' -o 'jsonpath={.spec.replicas}'
run kubectl patch deployment none -p '{}'
run kubectl patch configmap none --type=json -p '[]'
