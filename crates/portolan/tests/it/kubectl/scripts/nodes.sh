# Nodes: cordons, taints and drains.

node=nodes-one
quietly kubectl create -f- <<END
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "$node"}}
END
run kubectl get node $node
run kubectl get node $node -o wide
run kubectl cordon $node
run kubectl cordon $node
run kubectl get node $node
run kubectl uncordon $node
run kubectl taint node $node k=v:NoSchedule
run kubectl taint node $node k=v:NoSchedule
run kubectl taint node $node k=w:NoSchedule --overwrite
run kubectl taint node $node bad:Effect
run kubectl taint node $node k-
run kubectl get node $node -o 'jsonpath={.spec}'
quietly kubectl create -f- <<END
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: loose}, spec: {nodeName: $node, containers: [{name: m, image: i}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: kept, labels: {keep: it}}, spec: {nodeName: $node, terminationGracePeriodSeconds: 0, containers: [{name: m, image: i}]}}
- {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: pdb}, spec: {minAvailable: 1, selector: {matchLabels: {keep: it}}}}
END
run kubectl drain $node --dry-run=server --pod-selector=keep=it
run kubectl drain $node --dry-run=server --force --pod-selector=keep=it
run kubectl get pods
run kubectl drain $node --force --grace-period=0 --pod-selector='!keep' --timeout=20s
run kubectl get pods
quietly kubectl delete node $node
