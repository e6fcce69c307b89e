//! Portolan beside another network.
