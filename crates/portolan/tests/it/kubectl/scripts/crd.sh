# A kind of one's own, from its definition to its end.

definition() {
  cat <<'END'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.crd.example.com}
spec:
  group: crd.example.com
  scope: Namespaced
  names: {plural: ships, singular: ship, kind: Ship, shortNames: [sh], categories: [fleet]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.masts, statusReplicasPath: .status.masts}}
    selectableFields: [{jsonPath: .spec.harbour}]
    additionalPrinterColumns:
    - {name: Harbour, type: string, jsonPath: .spec.harbour}
    - {name: Masts, type: integer, jsonPath: .spec.masts, priority: 1}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    schema:
      openAPIV3Schema:
        description: A ship.
        type: object
        properties:
          spec:
            description: What it is.
            type: object
            required: [harbour]
            x-kubernetes-validations: [{rule: "self.masts < 9", message: too many masts}]
            properties:
              harbour: {type: string, description: Where it is at home., maxLength: 20}
              masts: {type: integer, default: 3, minimum: 1}
              crew: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}, rank: {type: string, enum: [captain, mate]}}}}
          status:
            type: object
            properties:
              masts: {type: integer}
              conditions: {type: array, items: {type: object, properties: {type: {type: string}, status: {type: string}}}}
END
}
run kubectl get ships
run kubectl apply -f- < <(definition)
run kubectl wait --for=condition=Established crd/ships.crd.example.com --timeout=60s
# Kinds are served a moment after they are established, and not everywhere at once.
until kubectl get ships >/dev/null 2>&1 && kubectl explain ship >/dev/null 2>&1; do rm -rf "$HOME/.kube"; done
ship() { printf 'apiVersion: crd.example.com/v1\nkind: Ship\nmetadata: {name: %s}\nspec: {%s}\n' "$1" "$2"; }
run kubectl apply -f- < <(ship argo 'harbour: Iolcus, crew: [{name: jason, rank: captain}]')
run kubectl apply -f- < <(ship argo 'harbour: Iolcus, crew: [{name: jason, rank: captain}, {name: orpheus}]')
run kubectl apply -f- < <(ship beagle 'harbour: Plymouth, masts: 2')
run kubectl get ships
run kubectl get sh -o wide
run kubectl get fleet
run kubectl get ship argo -o yaml
run kubectl get ships --field-selector spec.harbour=Plymouth
run kubectl get ships --field-selector spec.masts=2
run kubectl describe ship argo
run kubectl apply -f- < <(ship bad 'masts: 12')
run kubectl apply -f- < <(ship bad 'harbour: x, masts: 12')
run kubectl apply -f- < <(ship bad 'harbour: x, sails: 2')
run kubectl apply -f- --validate=warn < <(ship warned 'harbour: x, sails: 2')
# Errors have no order.
run kubectl apply -f- < <(ship bad 'harbour: x, masts: many') | sort
run kubectl apply -f- < <(ship bad 'harbour: x, crew: [{name: a, rank: cook}, {name: a}]')
run kubectl patch ship argo --type=merge -p '{"spec": {"masts": 4}}'
run kubectl patch ship argo --type=json -p '[{"op": "remove", "path": "/spec/harbour"}]'
run kubectl patch ship argo -p '{"spec": {"masts": 4}}'
run kubectl patch ship argo --subresource=status --type=merge -p '{"status": {"masts": 1, "conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"masts": 1}}'
run kubectl wait --for=condition=Ready ship/argo --timeout=10s
run kubectl scale ship argo --replicas=5
run kubectl get ship argo -o 'jsonpath={.spec.masts} {.metadata.generation}'
run kubectl label ship argo a=b
run kubectl apply --server-side --field-manager=other -f- < <(ship argo 'harbour: Colchis')
run kubectl apply --server-side --field-manager=other --force-conflicts -f- < <(ship argo 'harbour: Colchis, crew: [{name: medea}]')
run kubectl get ship argo -o yaml
owners ship argo
run kubectl explain ship
run kubectl explain ship.spec
run kubectl explain ship.spec.crew.rank
run kubectl explain ship --recursive
run kubectl explain ship.spec.nothing
run kubectl api-resources --api-group=crd.example.com -o wide
run kubectl get crd ships.crd.example.com
run kubectl describe crd ships.crd.example.com
run kubectl get crd ships.crd.example.com -o yaml
run kubectl delete ship beagle
run kubectl delete ships --all
run kubectl apply -f- < <(definition | sed 's/scope: Namespaced/scope: Cluster/')
run kubectl apply -f- < <(definition | sed 's/self.masts < 9/self.mast < 9/')
run kubectl delete crd ships.crd.example.com
run kubectl get ships
