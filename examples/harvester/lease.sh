#!/bin/sh
# What a guest's DHCP client calls with what it was told: configures the interface accordingly, and says it all.
# udhcpc gives an action as the first argument; dhclient gives a reason in the environment.
set -eu
case "${1:-${reason:-}}" in
bound | renew)
  ip address replace "$ip/$mask" dev "$interface"
  ip link set "$interface" mtu "$mtu"
  # Who has classless routes ignores the router: they repeat it.
  set -- ${staticroutes:-0.0.0.0/0 $router}
  while [ $# -ge 2 ]; do
    ip route replace "$1" via "$2" dev "$interface"
    shift 2
  done
  env
  echo the end
  ;;
BOUND6)
  ip address replace "$new_ip6_address/$new_ip6_prefixlen" dev "$interface" nodad
  env
  echo the end
  ;;
esac
