//! Rows of the databases that OVN and Open vSwitch keep, as structs.
//!
//! | module | database | who writes it |
//! |---|---|---|
//! | [`nb`] | `OVN_Northbound` | whoever designs the networks: what should be |
//! | [`sb`] | `OVN_Southbound` | ovn-northd and the chassis: what that comes to |
//! | [`vswitch`] | `Open_vSwitch` | each node: its bridges, ports and interfaces |
//!
//! The table `Logical_Switch_Port` is `nb::LogicalSwitchPort`, in `nb/logical_switch_port.rs`: a field per column, a typed
//! [`Column`](ovsdb_core::Column) per column for conditions and updates, and
//! [`TypedRow`](ovsdb_core::TypedRow). Everything but this file and `fits_schema.rs` is generated from the files in
//! `schemas/` by `cargo xtask codegen`. The crate does no IO, and has no opinion on what the rows should say.
//!
//! ```
//! use ovn_schema::nb::{LogicalSwitch, LogicalSwitchPort};
//! use ovsdb_core::{Rows, Transaction, Uuid};
//!
//! let (switch, port) = (Uuid::from_u128(1), Uuid::from_u128(2));
//! let mut txn = Transaction::new();
//! txn.insert(port, &LogicalSwitchPort { name: "port:web".into(), ..Default::default() });
//! txn.mutate(Rows::<LogicalSwitch>::uuid(switch), [LogicalSwitch::PORTS.insert([port])]).expect(1);
//! ```

#[cfg(test)]
mod fits_schema;
pub mod nb;
pub mod sb;
pub mod vswitch;
