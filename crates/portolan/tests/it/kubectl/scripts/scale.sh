# scale, and what rollouts look like to kubectl.

quietly kubectl create deployment d --image=i
run kubectl scale deployment d --replicas=3
run kubectl scale deployment/d --replicas=4 --current-replicas=3
run kubectl scale deployment/d --replicas=5 --current-replicas=3
run kubectl scale deployment d --replicas=-1
run kubectl scale deployment none --replicas=1
run kubectl scale deployment --all --replicas=2 -o name
run kubectl scale configmap x --replicas=1
run kubectl get deployment d -o 'jsonpath={.spec.replicas} {.metadata.generation}'
run kubectl get deployment d --subresource=scale -o yaml
run kubectl set image deployment/d i=j:2
run kubectl set image deployment/d none=j:2
run kubectl set env deployment/d A=b
run kubectl set env deployment/d --list
run kubectl set resources deployment d --limits=cpu=1,memory=1Gi
run kubectl set serviceaccount deployment d sa
run kubectl set selector service none a=b
run kubectl get deployment d -o 'jsonpath={.spec.template.spec.containers}'
run kubectl rollout history deployment/d
run kubectl rollout pause deployment/d
run kubectl rollout pause deployment/d
run kubectl rollout status deployment/d --timeout=1s
run kubectl rollout resume deployment/d
quietly kubectl patch deployment d --subresource=status -p "{\"status\": {\"observedGeneration\": $(kubectl get deployment d -o 'jsonpath={.metadata.generation}'), \"replicas\": 2, \"updatedReplicas\": 2, \"readyReplicas\": 1, \"availableReplicas\": 1}}"
run kubectl rollout status deployment/d --watch=false
quietly kubectl patch deployment d --subresource=status -p '{"status": {"readyReplicas": 2, "availableReplicas": 2}}'
run kubectl rollout status deployment/d
run kubectl get deployment d
quietly kubectl rollout restart deployment/d
run kubectl get deployment d -o 'jsonpath={.metadata.generation}'
run kubectl rollout undo deployment/d
