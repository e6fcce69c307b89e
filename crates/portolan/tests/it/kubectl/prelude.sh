# Comes before every script. `run` shows a command, what it writes, and how it ended. A script that cannot do what it is for ends with
# another status than 0, which fails the test: two servers that are not asked anything give the same answers.

set -u
fail() {
  printf 'the script fails: %s\n' "$*" >&2
  kill -TERM $$
  exit 1
}
kubectl() { command "$KUBECTL" --namespace="$NAMESPACE" "$@"; }

run() {
  printf '$ %s\n' "$*"
  local status=0
  "$@" 2>&1 || status=$?
  printf '[%d]\n' "$status"
  # Not found, not executable, or killed.
  [ "$status" -lt 126 ] || fail "$1 does not run ($status)"
}

# What is not to be compared, but must succeed.
quietly() {
  local said
  said=$("$@" 2>&1) || fail "$*: $said"
}

# Who has which fields. Entries are in the order of their times, which are those of the clock.
owners() {
  printf '$ owners %s\n' "$*"
  kubectl get "$@" --show-managed-fields \
    -o 'jsonpath={range .metadata.managedFields[*]}{.manager} {.operation} {.subresource} {.apiVersion} {.fieldsV1}{"\n"}{end}' | sort
}

# Starts a kubectl that watches, and returns when the server has told it so; `next` and `rest` are what it writes.
watching() {
  local line
  exec 3< <(exec "$KUBECTL" --namespace="$NAMESPACE" -v=6 "$@" 2>&1)
  watcher=$!
  while read -r line <&3 && [[ $line != *watch=true* ]]; do told "$line"; done
}
told() { [[ $1 =~ ^I[0-9]{4}\  ]] || printf '%s\n' "$1"; }
next() {
  local line
  # Nothing takes this long unless it does not come.
  while line=nothing && read -r -t 30 line <&3; do [[ $line =~ ^I[0-9]{4}\  ]] || break; done
  printf '%s\n' "$line"
}
rest() {
  local line
  while read -r line <&3; do told "$line"; done
}
unwatch() {
  kill "$watcher" 2>/dev/null
  exec 3<&-
}

quietly kubectl create namespace "$NAMESPACE"
