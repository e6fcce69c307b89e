//! Every fenced example in README.md and `docs/` runs.
//!
//! | language | what is checked |
//! |---|---|
//! | `sh` | the commands run in one shell, and all succeed |
//! | `console` | each command ends as the page says and prints what the page shows (see `transcript`) |
//! | `json` | it can be parsed |
//! | `yaml` | an API server with Portolan's kinds accepts the objects |
//! | `rust` | the lines stand in the file that `<!-- from: FILE -->` names, which is compiled and tested |
//! | `text` | nothing: diagrams and the like |

mod page;
mod reasons;
mod rights;
mod sandbox;
mod transcript;

use std::path::Path;

use self::page::{Block, blocks, pages, root};

macro_rules! examples_run {
    ($($test:ident: $page:literal),* $(,)?) => {
        const TESTED: &[&str] = &[$($page),*];
        $(#[test]
        fn $test() {
            check($page);
        })*
    };
}

examples_run! {
    examples_of_the_readme_run: "README.md",
    examples_of_the_agent_run: "docs/agent.md",
    examples_of_the_api_server_run: "docs/apiserver.md",
    examples_of_the_command_line_run: "docs/cli.md",
    examples_of_the_controller_run: "docs/controller.md",
    examples_of_the_doctor_run: "docs/doctor.md",
    examples_of_events_run: "docs/events.md",
    examples_of_harvester_run: "docs/harvester.md",
    examples_of_the_installation_run: "docs/installation.md",
    examples_of_the_lab_run: "docs/lab.md",
    examples_of_networks_run: "docs/networks.md",
    examples_of_networkattachments_run: "docs/networkattachments.md",
    examples_of_iplocks_run: "docs/iplocks.md",
    examples_of_ippools_run: "docs/ippools.md",
    examples_of_ovn4nfv_run: "docs/ovn4nfv.md",
    examples_of_the_ovsdb_client_run: "docs/ovsdb.md",
    examples_of_the_primary_network_run: "docs/primary.md",
    examples_of_sr_iov_run: "docs/sriov.md",
    examples_of_status_run: "docs/status.md",
    examples_of_testing_run: "docs/testing.md",
    examples_of_webhooks_run: "docs/webhooks.md",
}

#[test]
fn every_page_with_an_example_is_tested() {
    for page in pages() {
        let name = page.strip_prefix(root()).unwrap().to_str().unwrap();
        let examples = blocks(&page).into_iter().any(|block| block.language != "text");
        assert_eq!(examples, TESTED.contains(&name), "{name}: add it to, or remove it from, `examples_run!`");
    }
}

#[test]
fn every_page_is_linked_from_the_readme() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for page in pages() {
        let name = page.strip_prefix(root()).unwrap().to_str().unwrap();
        let linked = name == "README.md" || readme.contains(&format!("| [{name}]({name}) |"));
        assert!(linked, "{name}: add it to the table \"Where to read on\" of README.md");
    }
}

fn check(page: &str) {
    for block in blocks(&root().join(page)) {
        let problem = match block.language.as_str() {
            "sh" => shell(&block),
            "console" => console(&block),
            "yaml" => yaml(&block),
            "rust" => rust(&block),
            "json" => json(&block),
            "text" => None,
            other => {
                Some(format!("no one checks examples in {other:?}; choose a language of tests/it/docs.rs"))
            }
        };
        if let Some(problem) = problem {
            panic!("{page}:{}: {problem}", block.line);
        }
    }
}

/// `make test` is what runs this; `make demo` without its build, which is done.
const MAKE: &str = r#"
make() {
  case $1 in
    demo) scripts/demo ;;
    demo-down) scripts/demo down ;;
    test) ;;
    *) command make "$@" ;;
  esac
}
"#;

fn shell(block: &Block) -> Option<String> {
    let (code, output) = sandbox::run(&format!("{MAKE}set -euo pipefail\n{}", block.text));
    (code != Some(0)).then(|| format!("the example ended with exit code {code:?}:\n{output}"))
}

fn console(block: &Block) -> Option<String> {
    let steps = transcript::parse(&block.text);
    let (_, printed) = sandbox::run(&transcript::script(&steps));
    let outcomes = transcript::outcomes(&printed);
    if outcomes.len() != steps.len() {
        return Some(format!(
            "the example stopped after {} of {} commands:\n{printed}",
            outcomes.len(),
            steps.len()
        ));
    }
    steps.iter().zip(&outcomes).find_map(|(step, outcome)| transcript::mismatch(step, outcome))
}

fn yaml(block: &Block) -> Option<String> {
    let script = format!(
        "set -euo pipefail
         portolan apiserver --data-dir /run/api >/run/api.log &
         export KUBECONFIG=/run/api/admin.kubeconfig
         until kubectl get --raw /readyz; do sleep 0.1; done
         kubectl apply -f deploy/crds/
         kubectl wait --for=condition=Established crd --all
         kubectl apply -f - <<'EOF'\n{}EOF\n",
        block.text
    );
    let (code, output) = sandbox::run(&script);
    (code != Some(0)).then(|| format!("the objects are not accepted:\n{output}"))
}

fn json(block: &Block) -> Option<String> {
    let parsed = serde_json::from_str::<serde_json::Value>(&block.text);
    parsed.err().map(|error| format!("the example cannot be parsed: {error}"))
}

fn rust(block: &Block) -> Option<String> {
    let Some(from) = &block.from else {
        return Some(
            "a Rust example names the file it stands in, on the line before: <!-- from: FILE -->".to_owned(),
        );
    };
    let source = std::fs::read_to_string(root().join(Path::new(from))).unwrap_or_default();
    let lines = |text: &str| {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    (!lines(&source).contains(&lines(&block.text))).then(|| format!("the example does not stand in {from}"))
}
