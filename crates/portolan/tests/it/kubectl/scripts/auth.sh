# Who may do what.

quietly kubectl create serviceaccount sailor
quietly kubectl create role reader --verb=get,list,watch --resource=configmaps
quietly kubectl create role namer --verb=update --resource=secrets --resource-name=only
quietly kubectl create rolebinding reader --role=reader --serviceaccount="$NAMESPACE:sailor" --user=ann
quietly kubectl create rolebinding namer --role=namer --user=ann
sailor=system:serviceaccount:$NAMESPACE:sailor

run kubectl auth can-i '*' '*'
run kubectl auth can-i get configmaps --as=ann
run kubectl auth can-i create configmaps --as=ann
run kubectl auth can-i get pods --as=ann
run kubectl auth can-i get configmaps --as=ann -n default
run kubectl auth can-i get configmaps --as="$sailor"
run kubectl auth can-i update secrets/only --as=ann
run kubectl auth can-i update secrets/other --as=ann
run kubectl auth can-i get /healthz --as=ann
run kubectl auth can-i get /metrics --as=ann
run kubectl auth can-i get nothings --as=ann
run kubectl auth can-i get pods/log --as=ann
run kubectl auth can-i list nodes --as=ann --quiet
# The version is for those whom the server knows; kube-apiserver tells everybody, by another role.
run kubectl auth can-i --list --as=ann | grep -v '/version'
run kubectl auth whoami --as=ann --as-group=crew -o yaml
run kubectl get configmap --as=ann
run kubectl get secret --as=ann
run kubectl create configmap x --as=ann
run kubectl delete configmap x --as=ann
run kubectl get nodes --as=ann
run kubectl get configmap x --as=ann -n default
run kubectl get configmap -A --as=ann
run kubectl create role more --verb='*' --resource=secrets --as=ann
run kubectl auth reconcile -f- <<END
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: $NAMESPACE}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
END
run kubectl get role reader -o 'jsonpath={.rules}'
