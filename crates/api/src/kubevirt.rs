//! KubeVirt's `VirtualMachine` and `VirtualMachineInstance` (`kubevirt.io/v1`), as far as addresses are concerned: that they exist, and
//! which machine an instance belongs to. Nothing of their specifications is read or kept.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{NamespaceResourceScope, Resource, ResourceExt};
use serde::{Deserialize, Serialize};

/// A virtual machine, running or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VirtualMachine {
    /// Its metadata.
    pub metadata: ObjectMeta,
}

/// A virtual machine that runs, or is about to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VirtualMachineInstance {
    /// Its metadata.
    pub metadata: ObjectMeta,
}

impl VirtualMachineInstance {
    /// True if a `VirtualMachine` of the same name made it, and makes it again.
    pub fn is_of_machine(&self) -> bool {
        self.owner_references()
            .iter()
            .any(|owner| owner.kind == "VirtualMachine" && owner.controller == Some(true))
    }
}

macro_rules! resource {
    ($kind:ident, $plural:literal) => {
        impl Resource for $kind {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> Cow<'_, str> {
                "kubevirt.io".into()
            }

            fn version((): &()) -> Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(VirtualMachine, "virtualmachines");
resource!(VirtualMachineInstance, "virtualmachineinstances");
