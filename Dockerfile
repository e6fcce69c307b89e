# The images of Portolan. Two, so that an upgrade of one leaves Open vSwitch, and with it the traffic of nodes, alone:
#
#   docker build --target portolan -t portolan:0.1.0 .          everything but Open vSwitch: portolan, the CNI plugin, OVN, nft
#   docker build --target portolan-ovs -t portolan-ovs:0.1.0 .  Open vSwitch, with portolan to start it
#
# Programs of OVN and Open vSwitch are the distribution's. docs/installation.md says how to have clusters use the images.

FROM docker.io/library/rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package portolan && cargo xtask plugin && \
    install -D -t /out target/release/portolan target/*/cni/portolan-cni

FROM docker.io/library/debian:bookworm-slim AS portolan-ovs
# Packages must not start what they install.
RUN printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d && \
    apt-get update && apt-get install -y --no-install-recommends openvswitch-switch && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/portolan /usr/bin/portolan
ENTRYPOINT ["/usr/bin/portolan"]

FROM docker.io/library/debian:bookworm-slim AS portolan
RUN printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d && \
    apt-get update && apt-get install -y --no-install-recommends nftables ovn-central ovn-common ovn-host && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/portolan /usr/bin/portolan
COPY --from=build /out/portolan-cni /usr/lib/portolan/portolan-cni
ENTRYPOINT ["/usr/bin/portolan"]
