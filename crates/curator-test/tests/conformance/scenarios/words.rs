//! Four-letter words.

use curator_test::TestingServer;

use crate::{
    op::EPHEMERAL,
    requests::{add_watch, create, exists, get_children, get_data, ping},
    scenario::{Scenario, run, run_on},
    server::Server,
};

/// A word's answer, without what changes from time to time: all after the first of `ends` in each line.
fn shape(s: &Scenario<'_>, word: &str, ends: &[char]) {
    s.line(&format!("{word}:"));
    for line in s.word(word).lines() {
        let end = line.find(ends).map_or(line.len(), |end| end + 1);
        s.line(&format!("  {}", &line[..end]));
    }
}

#[test]
fn words_have_a_shape() {
    run("words", |s| {
        s.line(&format!("ruok: {:?}", s.word("ruok")));
        shape(s, "srvr", &[':']);
        s.note("What is no word is a frame, and too long.");
        let mut a = s.open("a");
        a.send_bytes(b"abcd", "abcd");
        a.wait_for_close();
    });
}

#[test]
fn words_about_watches() {
    run_on(&Server::with(TestingServer::builder()), "words_watches", |s| {
        let (mut a, first) = s.session("a", 30_000);
        let (mut b, second) = s.session("b", 30_000);
        let show = |word: &str| {
            let text = [("s1", &first), ("s2", &second)]
                .iter()
                .fold(s.word(word), |text, (name, session)| text.replace(&format!("0x{:x}", session.id), name));
            s.line(&format!("{word}: {text:?}"));
        };
        let all = || ["wchs", "wchp"].map(show);
        all();
        a.call(create("/a"));
        s.note("Watches on data are told, those on children are not.");
        a.call(get_children("/a").watch());
        all();
        a.call(get_data("/a").watch());
        all();
        a.call(exists("/b").watch());
        show("wchs");
        b.call(exists("/b").watch());
        show("wchs");
        a.call(create("/b"));
        b.settle();
        b.call(add_watch("/a", 0));
        show("wchs");
        b.call(add_watch("/a", 1));
        show("wchs");
        s.note("Watches go with their connection.");
        let _c = s.resume("c", &first);
        a.wait_for_close();
        all();
    });
}

#[test]
fn words_about_the_tree() {
    run_on(&Server::with(TestingServer::builder()), "words_mntr", |s| {
        let mut a = s.client("a");
        let value = |name: &str| -> i64 {
            let text = s.word("mntr");
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t').map(str::to_owned));
            line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
        };
        let count = || {
            for name in [
                "zk_znode_count",
                "zk_ephemerals_count",
                "zk_watch_count",
                "zk_approximate_data_size",
                "zk_global_sessions",
            ] {
                s.line(&format!("{name} {}", value(name)));
            }
        };
        count();
        a.call(create("/a"));
        a.call(create("/e").flags(EPHEMERAL));
        a.call(get_data("/a").watch());
        a.call(get_children("/a").watch());
        count();
        s.note("Each request, each ping, each handshake and each word is a packet.");
        let before = value("zk_packets_received");
        a.call(exists("/a"));
        a.call(ping());
        let after = value("zk_packets_received");
        s.line(&format!("zk_packets_received +{}", after - before));
        let before = value("zk_packets_received");
        let _b = s.client("b");
        let after = value("zk_packets_received");
        s.line(&format!("zk_packets_received +{}", after - before));
        s.note("These are told, too; what they say depends on who else is connected.");
        for name in ["zk_num_alive_connections", "zk_packets_sent", "zk_outstanding_requests"] {
            value(name);
            s.line(name);
        }
        for name in ["zk_version", "zk_server_state"] {
            let text = s.word("mntr");
            s.line(
                text.lines()
                    .find(|line| line.starts_with(name))
                    .map_or("", |line| line.split([',', '.']).next().unwrap_or("")),
            );
        }
    });
}

#[test]
fn words_about_connections() {
    run("words_cons", |s| {
        let (mut a, session) = s.session("a", 30_000);
        a.call(create("/a"));
        a.call(exists("/a"));
        let cons = s.word("cons");
        let id = format!("sid=0x{:x},", session.id);
        let line = cons.lines().find(|line| line.contains(&id)).unwrap_or_default();
        let parts: Vec<&str> = line.split(['[', ']', '(', ')', ',']).collect();
        s.line(&format!("{:?}", parts[0].split(':').next().unwrap()));
        // 0 as long as the server is at work on the connection, which may be a moment longer than the reply takes.
        assert!(["0", "1"].contains(&parts[1]), "{line}");
        for part in &parts[2..] {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let fixed = ["recved", "lop", "to", "lcxid"].contains(&key);
            s.line(&format!("{key}={}", if fixed { value } else { "…" }));
        }
    });
}
