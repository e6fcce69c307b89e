# label and annotate.

quietly kubectl create configmap a
quietly kubectl create configmap b
for verb in label annotate; do
  run kubectl $verb configmap a x=1
  run kubectl $verb configmap a x=2
  run kubectl $verb configmap a x=2 --overwrite
  run kubectl $verb configmap a --list
  run kubectl $verb configmap a y=1 x-
  run kubectl $verb configmap --all z=1
  run kubectl $verb configmap a 'bad key=1'
  run kubectl $verb configmap none x=1
  run kubectl $verb configmap a v=1 --resource-version=1
  run kubectl $verb configmap a dry=1 --dry-run=server -o name
  run kubectl $verb configmap a w=1 -o yaml
done
run kubectl label configmap a 'x=bad value'
run kubectl label configmap a "x=$(printf 'v%.0s' {1..64})"
run kubectl get configmap --show-labels
run kubectl get configmap a -o yaml
run kubectl label namespace "$NAMESPACE" env=test
run kubectl get namespace -l env=test
