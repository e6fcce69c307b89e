# delete --cascade: what becomes of those who have the deleted one as their owner. kube-apiserver alone does nothing about them.

# An owner, and one who is owned.
family() {
  quietly kubectl create configmap "$1-owner"
  quietly kubectl create -f- <<END
apiVersion: v1
kind: Secret
metadata:
  name: $1-child
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: $1-owner, uid: $(kubectl get configmap "$1-owner" -o 'jsonpath={.metadata.uid}'), blockOwnerDeletion: true}
END
}

family background
run kubectl delete configmap background-owner --cascade=background
quietly kubectl wait --for=delete secret/background-child --timeout=60s
run kubectl get configmap,secret -o name

# The owner is waited for, and goes last.
family foreground
run kubectl delete configmap foreground-owner --cascade=foreground
run kubectl get configmap,secret -o name

family orphan
run kubectl delete configmap orphan-owner --cascade=orphan
run kubectl get configmap,secret -o name
run kubectl get secret orphan-child -o 'jsonpath={.metadata.ownerReferences}'

quietly kubectl create deployment web --image=i
run kubectl delete namespace "$NAMESPACE"
run kubectl get secret,deployment -o name
