//! Namespaces held by threads.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Stdio;

use portolan_testbed::{Daemon, Error, Lab, Ready};

#[test]
fn a_lab_works_without_a_test_around_it() {
    let lab = Lab::new().unwrap();
    let path = lab.path().to_owned();
    assert!(path.is_dir());
    let network = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    assert_ne!(lab.home().run(network), network());
    // A socket stays in the namespace it was made in: this one is reached from there, though it is used from here.
    let listener = lab.home().run(|| TcpListener::bind("127.0.0.1:80")).unwrap();
    lab.home().run(|| TcpStream::connect("127.0.0.1:80")).unwrap();
    listener.accept().unwrap();
    drop(lab);
    assert!(!path.exists());
}

#[test]
fn processes_die_with_the_namespace_they_were_started_in() {
    portolan_testbed::test(async |lab| {
        let namespace = lab.namespace("doomed").unwrap();
        let mut child = namespace
            .command("sleep")
            .arg("1000")
            .spawn_with(Stdio::null(), Stdio::null(), Stdio::null())
            .unwrap();
        drop(namespace);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    });
}

#[test]
fn two_namespaces_are_two_networks() {
    portolan_testbed::test(async |lab| {
        let (one, two) = (lab.namespace("one").unwrap(), lab.namespace("two").unwrap());
        one.veth("left", &two, "right").unwrap();
        one.ip("address add 192.0.2.1/24 dev left").unwrap();
        two.ip("address add 192.0.2.2/24 dev right").unwrap();
        one.command("ping").args(["-c1", "-w5", "192.0.2.2"]).read().unwrap();
        assert!(lab.command("ping").args(["-c1", "-W1", "192.0.2.2"]).read().is_err());
        let error = one.ip("address add nonsense dev left").unwrap_err();
        assert!(error.to_string().contains("nonsense"), "{error}");
    });
}

#[test]
fn a_panic_in_a_namespace_is_the_callers_panic() {
    portolan_testbed::test(async |lab| {
        let panic = catch_unwind(AssertUnwindSafe(|| lab.home().run(|| panic!("overboard"))));
        assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "overboard");
        assert_eq!(lab.home().run(|| 1), 1);
    });
}

#[test]
fn a_daemon_that_ends_before_it_is_ready_is_reported_with_its_last_words() {
    portolan_testbed::test(async |lab| {
        let socket = lab.path().join("never");
        let daemon = Daemon::new("hasty", "sh").args(["-c", "echo aground >&2; exit 3"]);
        let error = daemon.ready(Ready::Socket(socket)).start(lab.home()).unwrap_err();
        assert!(matches!(&error, Error::Exited { tail, .. } if tail == "aground"), "{error:?}");
        assert!(error.to_string().contains("exit status: 3"), "{error}");

        let error = Daemon::new("absent", "no-such-program").start(lab.home()).unwrap_err();
        assert_eq!(error.to_string(), "no-such-program is not installed: run `make setup`");
    });
}
