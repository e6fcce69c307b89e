use super::*;

fn at(last: u8) -> SocketAddr {
    ([192, 0, 2, last], 6443).into()
}

fn all(lasts: &[u8]) -> Vec<SocketAddr> {
    lasts.iter().copied().map(at).collect()
}

/// The order in which servers are tried: by the last byte of their addresses, what was given as 0.
fn order(servers: &Servers) -> Vec<u8> {
    let last = |server: &Server| match server {
        Server::At(SocketAddr::V4(address)) => address.ip().octets()[3],
        Server::Given | Server::At(_) => 0,
    };
    servers.order().iter().map(last).collect()
}

/// A connection comes about as soon as it is begun.
fn connect(servers: &mut Servers, server: Server) -> (Ticket, bool) {
    let begun = servers.time();
    servers.connected(server, begun)
}

#[test]
fn a_server_that_refuses_is_tried_last() {
    let mut servers = Servers::new(None, &all(&[1, 2]));
    assert_eq!(order(&servers), [0, 1, 2]);
    servers.refused(Server::Given);
    assert_eq!(order(&servers), [1, 2, 0]);
    // Several find it out at once.
    servers.refused(Server::Given);
    assert_eq!(order(&servers), [1, 2, 0]);
    servers.refused(Server::At(at(1)));
    assert_eq!(order(&servers), [2, 0, 1]);
    // One that is not known any more.
    servers.refused(Server::At(at(9)));
    assert_eq!(order(&servers), [2, 0, 1]);
}

#[test]
fn connections_go_on_when_a_later_one_is_refused() {
    let mut servers = Servers::new(None, &all(&[1]));
    let (ticket, changed) = connect(&mut servers, Server::Given);
    assert!(!changed, "it is the first");
    servers.refused(Server::Given);
    assert!(servers.keeps(ticket));
    let (other, changed) = connect(&mut servers, Server::At(at(1)));
    assert!(changed && servers.keeps(other));
    assert_eq!((servers.current(), servers.changes()), (Some(Server::At(at(1))), 1));
    assert!(!connect(&mut servers, Server::At(at(1))).1);
}

#[test]
fn an_empty_list_takes_nothing_away() {
    let mut servers = Servers::new(None, &all(&[1, 2]));
    let (ticket, _) = connect(&mut servers, Server::At(at(2)));
    assert!(!servers.list(&[]));
    assert_eq!(order(&servers), [0, 1, 2]);
    assert!(servers.keeps(ticket));
    assert_eq!(servers.listed().len(), 2);
}

#[test]
fn a_list_decides_about_the_next_connections_and_ends_those_to_servers_that_left() {
    let mut servers = Servers::new(None, &[]);
    assert!(servers.list(&all(&[1, 2])));
    assert!(!servers.list(&all(&[2, 1])), "it is the same");
    let (to_given, _) = connect(&mut servers, Server::Given);
    let (to_first, _) = connect(&mut servers, Server::At(at(1)));
    let (to_second, _) = connect(&mut servers, Server::At(at(2)));
    assert!(servers.list(&all(&[3, 2])));
    assert_eq!(order(&servers), [0, 2, 3]);
    assert!(!servers.keeps(to_first) && servers.keeps(to_second));
    // What was never listed may be a balancer of load, or the Service: no list says anything about it.
    assert!(servers.keeps(to_given));
}

#[test]
fn the_given_address_stays_as_a_last_resort_when_it_leaves_the_list() {
    let mut servers = Servers::new(Some(at(1)), &[]);
    assert!(servers.list(&all(&[1, 2])));
    assert_eq!(order(&servers), [0, 2], "it is there once");
    let (ticket, _) = connect(&mut servers, Server::Given);
    assert!(servers.list(&all(&[2, 3])));
    assert_eq!(order(&servers), [2, 3, 0]);
    assert!(!servers.keeps(ticket));
    // It comes back.
    assert!(servers.list(&all(&[1, 2, 3])));
    assert_eq!(order(&servers), [2, 3, 0]);
    let (ticket, _) = connect(&mut servers, Server::Given);
    assert!(servers.keeps(ticket));
}

#[test]
fn what_was_known_before_a_restart_was_a_list() {
    let mut servers = Servers::new(Some(at(1)), &all(&[1, 2]));
    assert_eq!(order(&servers), [0, 2]);
    let (ticket, _) = connect(&mut servers, Server::Given);
    assert!(servers.list(&all(&[2])));
    assert_eq!(order(&servers), [2, 0]);
    assert!(!servers.keeps(ticket));
}

#[test]
fn connections_to_a_server_that_answers_nothing_end_if_there_is_another() {
    let mut servers = Servers::new(None, &all(&[1]));
    let (first, _) = connect(&mut servers, Server::At(at(1)));
    let now = Instant::now();
    assert!(servers.useless(first, now));
    assert_eq!(order(&servers), [0, 1]);
    assert!(!servers.keeps(first));
    assert!(!servers.useless(first, now + GIVE_UP_AGAIN), "that is known");
    let (later, _) = connect(&mut servers, Server::At(at(1)));
    assert!(servers.keeps(later), "it may answer again");
    let mut alone = Servers::new(None, &[]);
    let (only, _) = connect(&mut alone, Server::Given);
    assert!(!alone.useless(only, now));
    assert!(alone.keeps(only));
}

#[test]
fn servers_that_fail_together_are_not_left_for_each_other_all_the_time() {
    let mut servers = Servers::new(None, &all(&[1]));
    let (to_given, _) = connect(&mut servers, Server::Given);
    let now = Instant::now();
    assert!(servers.useless(to_given, now));
    let (to_other, _) = connect(&mut servers, Server::At(at(1)));
    assert!(!servers.useless(to_other, now + GIVE_UP_AGAIN / 2));
    assert!(servers.keeps(to_other));
    assert!(servers.useless(to_other, now + GIVE_UP_AGAIN), "the first may be of use again");
    assert_eq!(order(&servers), [0, 1]);
}

#[test]
fn a_connection_that_was_begun_before_its_server_was_given_up_ends() {
    let mut servers = Servers::new(None, &all(&[1]));
    let begun = servers.time();
    let (ticket, _) = connect(&mut servers, Server::Given);
    assert!(servers.useless(ticket, Instant::now()));
    let (late, _) = servers.connected(Server::Given, begun);
    assert!(!servers.keeps(late));
    let (later, _) = connect(&mut servers, Server::Given);
    assert!(servers.keeps(later));
}

#[test]
fn what_is_connected_with_servers_that_are_silent_goes_to_one_that_is_not() {
    let (mut servers, now) = (Servers::new(None, &all(&[1, 2])), Instant::now());
    let (to_given, _) = connect(&mut servers, Server::Given);
    let (to_first, _) = connect(&mut servers, Server::At(at(1)));
    for server in [Server::Given, Server::At(at(1))] {
        servers.silent(server);
    }
    assert_eq!(order(&servers), [2, 0, 1]);
    assert!(servers.keeps(to_given) && servers.keeps(to_first), "it may be the network");
    let (to_second, _) = connect(&mut servers, Server::At(at(2)));
    assert_eq!(servers.leave_silent(now).len(), 2);
    assert!(!servers.keeps(to_given) && !servers.keeps(to_first) && servers.keeps(to_second));
    servers.silent(Server::At(at(2)));
    let (back, _) = connect(&mut servers, Server::Given);
    assert!(servers.leave_silent(now + GIVE_UP_AGAIN / 2).is_empty());
    assert!(servers.keeps(to_second));
    servers.silent(Server::Given);
    connect(&mut servers, Server::Given);
    assert_eq!(servers.leave_silent(now + GIVE_UP_AGAIN), [Server::At(at(2))].into());
    assert!(servers.keeps(back), "it was heard again");
}

#[test]
fn what_is_remembered_is_bounded_by_the_list() {
    let (mut servers, mut now) = (Servers::new(None, &[]), Instant::now());
    for round in 1..100 {
        assert!(servers.list(&all(&[round, round + 1])));
        let (ticket, _) = connect(&mut servers, Server::At(at(round)));
        now += GIVE_UP_AGAIN;
        assert!(servers.useless(ticket, now));
        servers.silent(Server::At(at(round)));
    }
    assert_eq!(servers.order().len(), 3);
    assert!(servers.silent.len() <= 3, "{:?}", servers.silent);
    assert!(servers.given_up.len() <= 3, "{:?}", servers.given_up);
}
