# Portolan. `make` alone explains itself.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
export PORTOLAN_CACHE ?= /var/cache/portolan
TYPOS := $(PORTOLAN_CACHE)/tools/bin/typos
CARGO ?= cargo

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-down test test-full test-k8s test-k8s-ci conformance lint unit bench bench-k8s plugin doc codegen fuzz clean

help: ## Show this help
	@echo "Portolan: networks for Kubernetes on Open vSwitch and OVN."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "On Debian, as root; everything that is missing is installed by the first of them."

setup: ## Install what this machine lacks (Debian packages, test components); seconds when nothing is missing
	@scripts/setup

demo: ## Watch virtual switches and routers work across three nodes on this machine; leaves them up to be tried
	@scripts/setup --for-demo
	$(CARGO) build --workspace --bins
	@scripts/demo

demo-down: ## End what `make demo` left up
	@scripts/demo down

test: setup lint unit ## Formatting, lints, unit and integration tests against the real components

test-full: test ## All of `make test`, then the soak and crash rounds at length, and the instruction counts
	PORTOLAN_SOAK=10 $(CARGO) test --release --package ovsdb --test it
	PORTOLAN_CHARTER=full $(CARGO) test --workspace --test it charter::
	SIMULATION_SEEDS=10000 $(CARGO) test --release --package portolan-controller --test simulation nothing
	PORTOLAN_CRASH_ROUNDS=200 $(CARGO) test --workspace --test it crash_rounds::
	PORTOLAN_TRACE_ROUNDS=40 $(CARGO) test --workspace --test it cli::random
	PORTOLAN_NODE_FAULTS=full $(CARGO) test --workspace --test it node_faults::
	scripts/fetch-kernel
	$(CARGO) test --workspace --test it kernel_datapath:: -- --ignored
	scripts/fetch-ovn
	scripts/with-newer-ovn $(CARGO) test --workspace --test it -- charter:: primary:: controller::
	PORTOLAN_WATCHERS=full $(CARGO) test --workspace --test it apiserver::watchers::clients_that_read
	$(CARGO) test --package apiserver-conformance -- --ignored
	$(CARGO) xtask instructions
	$(CARGO) xtask plugin
	@scripts/setup --for-kubernetes
	PORTOLAN_CHURN=full $(CARGO) test --workspace --features portolan/kubernetes-tests --test shim --test kubernetes workloads_come_and_go

# A cluster takes half a gigabyte of memory, and a core while it comes up. With the plugin's own tests the plugin is built.
test-k8s: ## Tests on whole clusters of real Kubernetes, with containers; builds Kubernetes the first time
	@scripts/setup --for-kubernetes
	@scripts/fetch-ovn
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$(nproc)} $(CARGO) test --workspace --features portolan/kubernetes-tests --test shim --test kubernetes

# The most telling of them: Portolan installed beside another network, and as the primary network, and removed again.
test-k8s-ci: ## The most telling of `make test-k8s`, for continuous integration: three minutes once Kubernetes is built
	@scripts/setup --for-kubernetes
	$(CARGO) test --workspace --features portolan/kubernetes-tests --test shim --test kubernetes -- --test-threads=1 \
	  installation::pods_get_their_networks primary_installed::a_cluster_without_a_network

conformance: ## Kubernetes's own tests that match FOCUS, on the network CNI=bridge (the reference) or CNI=portolan
	@scripts/setup --for-conformance
	FOCUS='$(FOCUS)' SKIP='$(SKIP)' CNI='$(CNI)' $(CARGO) test --workspace --features portolan/kubernetes-tests --test shim --test kubernetes_conformance

# Most tests wait for daemons most of the time: two for each core keep it busy.
unit: setup
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((2 * $$(nproc)))} $(CARGO) test --workspace

lint: setup ## Formatting, clippy (of the fuzz targets too), spelling, documentation of the code
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --features portolan-fuzz/targets,portolan/kubernetes-tests -- --deny warnings
	$(TYPOS)
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --quiet --workspace --no-deps

bench: setup ## Measure beside the references and peers, in one run; prints ratios
	$(CARGO) bench --package ovsdb --bench sync
	$(CARGO) bench --package portolan --bench apiserver
	$(CARGO) build --release --package portolan-cni
	$(CARGO) bench --package portolan --bench controller
	$(CARGO) bench --package portolan --bench lab
	$(CARGO) xtask plugin
	$(CARGO) bench --package portolan --bench cni
	$(CARGO) run --release --package portolan-ipam --example rebuild_cost -- 1000000
	$(CARGO) run --release --package portolan-plan --example plan_memory
	$(CARGO) xtask instructions

bench-k8s: ## Measure Portolan as the primary network beside the bridge plugin, on clusters of Kubernetes, by turns; ROUNDS=10
	@scripts/setup --for-kubernetes
	$(CARGO) build --release --package portolan-cni
	ROUNDS='$(ROUNDS)' UNDERLAY='$(UNDERLAY)' $(CARGO) bench --package portolan --features kubernetes-tests --bench kubernetes

plugin: ## Build the CNI plugin as nodes have it: static, at most 2 MiB
	$(CARGO) xtask plugin

doc: ## Build the documentation of all crates
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --no-deps
	@echo "open target/doc/ovsdb/index.html"

codegen: ## Write the generated code and manifests anew
	$(CARGO) xtask codegen

fuzz: ## Fuzz the decoders for a minute each (needs the nightly toolchain and cargo-fuzz)
	cd fuzz && for target in frame value openflow request body patch; do cargo +nightly fuzz run --features targets $$target -- -max_total_time=60; done

clean: ## Remove what was built here
	$(CARGO) clean
