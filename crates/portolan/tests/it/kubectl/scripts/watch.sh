# get -w: every change is a line.

quietly kubectl create configmap a --from-literal=k=v
watching get configmap -w
quietly kubectl create configmap b
next
quietly kubectl label configmap a x=y
next
quietly kubectl delete configmap b
next
unwatch

watching get configmap -w --output-watch-events
quietly kubectl annotate configmap a x=y
next
quietly kubectl delete configmap a
next
unwatch

watching get configmap -l app=x -o name --watch-only
quietly kubectl create configmap c
quietly kubectl label configmap c app=x
next
quietly kubectl label configmap c app=y --overwrite
next
unwatch

quietly kubectl create deployment web --image=i
watching get deployment web -w -o 'jsonpath={.metadata.name} {.spec.replicas}{"\n"}'
quietly kubectl scale deployment web --replicas=3
next
unwatch

watching get pods -w -o wide
quietly kubectl run p --image=i
next
next
quietly kubectl delete pod p --force --grace-period=0
next
next
unwatch
