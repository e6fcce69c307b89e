# wait: for conditions, values and deletions, that are there, that come, and that do not.

quietly kubectl create deployment d --image=i
quietly kubectl run p --image=i
run kubectl wait --for=condition=Ready pod/p --timeout=1s
run kubectl wait --for=jsonpath='{.status.phase}'=Pending pod/p --timeout=10s
run kubectl wait --for=jsonpath='{.metadata.name}' pod/p --timeout=10s
run kubectl wait --for=condition=Ready pod/none --timeout=1s
run kubectl wait --for=delete pod/none --timeout=1s

kubectl wait --for=condition=Ready pod/p --timeout=60s >"$HOME/waited" 2>&1 &
quietly kubectl patch pod p --subresource=status -p '{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}'
wait
run cat "$HOME/waited"
run kubectl wait --for=condition=Ready=false pod/p --timeout=1s
run kubectl wait --for=condition=Ready pod --all --timeout=10s
run kubectl wait --for=condition=ready pod -l run=p --timeout=10s

kubectl wait --for=jsonpath='{.spec.replicas}'=3 deployment/d --timeout=60s >"$HOME/waited" 2>&1 &
quietly kubectl scale deployment d --replicas=3
wait
run cat "$HOME/waited"

watching wait --for=delete pod/p --timeout=60s
quietly kubectl delete pod p --force --grace-period=0
rest

kubectl wait --for=create configmap/late --timeout=60s >"$HOME/waited" 2>&1 &
quietly kubectl create configmap late
wait
run cat "$HOME/waited"
