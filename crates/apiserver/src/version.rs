//! Which version the server says it is.

use serde::Serialize;

/// What `/version` says. Clients choose what they ask for by it, so it names the Kubernetes release whose API this is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    /// `1`
    pub major: String,
    /// `34`
    pub minor: String,
    /// The version that it behaves as.
    pub emulation_major: String,
    /// The version that it behaves as.
    pub emulation_minor: String,
    /// The oldest version that it gets along with.
    pub min_compatibility_major: String,
    /// The oldest version that it gets along with.
    pub min_compatibility_minor: String,
    /// `v1.34.4`, and what it really is.
    pub git_version: String,
    /// Of what it really is.
    pub git_commit: String,
    /// Always `clean`.
    pub git_tree_state: String,
    /// When it was built, if that is known.
    pub build_date: String,
    /// The language's version.
    pub go_version: String,
    /// The compiler.
    pub compiler: String,
    /// `linux/amd64`
    pub platform: String,
}

impl Default for VersionInfo {
    fn default() -> Self {
        VersionInfo {
            major: "1".into(),
            minor: "34".into(),
            emulation_major: "1".into(),
            emulation_minor: "34".into(),
            min_compatibility_major: "1".into(),
            min_compatibility_minor: "33".into(),
            git_version: "v1.34.4".into(),
            git_commit: String::new(),
            git_tree_state: "clean".into(),
            build_date: String::new(),
            go_version: String::new(),
            compiler: "rustc".into(),
            platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}
