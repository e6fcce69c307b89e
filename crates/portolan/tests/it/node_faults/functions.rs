//! The agent is killed at every step of a call for a virtual function: afterwards the function is on the node under its own name, and its
//! representor is as it was.

use std::time::Duration;

use portolan_agent::{Moment, Step};
use portolan_testbed::{NetworkCard, ONE_SWITCH, Process, Sandbox, Test, TestLab, Testbed};
use serde_json::{Value, json};

use crate::node_faults::snapshot;
use crate::node_faults::steps::start_victim;

/// The steps of ADD, in their order, and those of DEL.
const OF_ADD: [Step; 5] =
    [Step::Link, Step::NoteFunction, Step::MoveFunction, Step::Configure, Step::Installed];
const OF_DEL: [Step; 3] = [Step::Remove, Step::ReturnFunction, Step::ReleaseFunction];

#[test]
fn an_agent_killed_at_any_step_of_a_function_leaves_it_for_the_next_one_to_use_or_to_give_back() {
    Test::new().deadline(Duration::from_secs(900)).run(async |lab: TestLab| {
        let testbed = Testbed::builder().nodes(1).without_runtimes().start(&lab).unwrap();
        let resource = "metadata: {name: sea, namespace: default, annotations: {k8s.v1.cni.cncf.io/resourceName: example.com/vf}}";
        let objects = ONE_SWITCH.replace("metadata: {name: sea, namespace: default}", resource);
        testbed.apply(&objects).unwrap();
        let card = NetworkCard::new(&testbed.nodes()[0], 1).unwrap();
        let function = json!({ "deviceID": card.address(0) });
        let create = |name: &str| {
            testbed.pod(name).on("node1").nad("sea").create().unwrap();
            testbed.sandbox(name).unwrap()
        };
        let witness = create("witness").add().unwrap();
        let before = (snapshot::of_node(&testbed), card.links());
        // The cluster's own agent does not see the card.
        testbed.agents()[0].stop().unwrap();
        for step in OF_ADD.into_iter().chain(OF_DEL) {
            for moment in [Moment::Began, Moment::Ended] {
                let at = format!("{step} {moment:?}");
                let sandbox = create(&format!("{step}-{moment:?}").to_lowercase());
                let agent = kill(&testbed, &card, &sandbox, &function, step, &at);
                sandbox
                    .call_for("net1", "DEL", &function)
                    .unwrap_or_else(|error| panic!("after {at}: {error}"));
                assert_eq!((snapshot::of_node(&testbed), card.links()), before, "after {at}");
                agent.kill().unwrap();

                // In the same sandbox once more.
                let agent = kill(&testbed, &card, &sandbox, &function, step, &at);
                let result = sandbox.call_for("net1", "ADD", &function);
                let pod = sandbox.pod(&result.unwrap_or_else(|error| panic!("after {at}: {error}")));
                testbed.ping(&witness, &pod).succeeds();
                testbed.ping(&pod, &witness).succeeds();
                sandbox
                    .call_for("net1", "DEL", &function)
                    .unwrap_or_else(|error| panic!("after {at}: {error}"));
                assert_eq!((snapshot::of_node(&testbed), card.links()), before, "after {at} and again");
                agent.kill().unwrap();
            }
        }
    });
}

/// Lets an agent end itself at a step of a call, and starts another one.
fn kill(
    testbed: &Testbed,
    card: &NetworkCard,
    sandbox: &Sandbox,
    function: &Value,
    step: Step,
    at: &str,
) -> Process {
    let victim = start_victim(testbed, at, Some(card.sysfs()));
    let call = match OF_DEL.contains(&step) {
        true => {
            sandbox.call_for("net1", "ADD", function).unwrap_or_else(|error| panic!("before {at}: {error}"));
            "DEL"
        }
        false => "ADD",
    };
    let said = sandbox.call_for("net1", call, function).unwrap_err();
    assert!(said.contains(r#""code":11"#) && said.contains("ended during the call"), "{at}: {said}");
    victim.kill().unwrap();
    start_victim(testbed, "no step", Some(card.sysfs()))
}
