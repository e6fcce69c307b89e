//! ServiceAccounts. Tokens for them are not made here.

use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::kind::{KindExt as _, core};
use super::table::{age, columns, name};
use super::value::{items_mut, size, text};
use apiserver::registry::{Resource, Scope};

pub(super) fn resource() -> Resource {
    core("serviceaccounts", "ServiceAccount", Scope::Namespaced)
        .short_names(&["sa"])
        .behaving(Behaviour { settle: keep_only_names, answers_with_deleted: true, ..Behaviour::PLAIN })
        .shown(columns(&["Name", "Secrets", "Age"], |account, now| {
            vec![name(account), size(&account["secrets"]).into(), age(account, now)]
        }))
}

/// The secrets of an account are in its namespace: all but their names would be misleading.
fn keep_only_names(account: &mut Value) {
    for secret in items_mut(account, "secrets") {
        *secret = json!({"name": text(&secret["name"])});
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::prepared;
    use super::*;

    #[test]
    fn tables_of_secrets_show_no_data() {
        let account = json!({"secrets": [{"name": "a", "namespace": "b", "kind": "Secret"}]});
        assert_eq!(prepared(&resource(), account), json!({"secrets": [{"name": "a"}]}));
    }
}
