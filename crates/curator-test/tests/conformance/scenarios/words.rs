//! Four-letter words.

use crate::{
    scenario::{Scenario, run},
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
    run(&Server::common(), "words", |s| {
        s.line(&format!("ruok: {:?}", s.word("ruok")));
        shape(s, "srvr", &[':']);
        s.note("What is no word is a frame, and too long.");
        let mut a = s.open("a");
        a.send(&["<61626364> abcd"]);
        a.wait_for_close();
    });
}

#[test]
fn words_about_watches() {
    run(&Server::own(), "words_watches", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        let sessions = s.log.borrow().sessions.clone();
        let show = |word: &str| {
            let text = [("s1", &sessions[0]), ("s2", &sessions[1])]
                .iter()
                .fold(s.word(word), |text, (name, session)| text.replace(&format!("0x{:x}", session.session_id), name));
            s.line(&format!("{word}: {text:?}"));
        };
        let all = || ["wchs", "wchp"].map(show);
        all();
        a.call(r#"create "/a" "" persistent"#);
        s.note("Watches on data are told, those on children are not.");
        a.call(r#"getChildren "/a" watch"#);
        all();
        a.call(r#"getData "/a" watch"#);
        all();
        a.call(r#"exists "/b" watch"#);
        show("wchs");
        b.call(r#"exists "/b" watch"#);
        show("wchs");
        a.call(r#"create "/b" "" persistent"#);
        b.settle();
        b.call(r#"addWatch "/a" persistent"#);
        show("wchs");
        b.call(r#"addWatch "/a" persistent_recursive"#);
        show("wchs");
        s.note("Watches go with their connection.");
        let _c = s.connect("c", "connect timeout=30000 session=s1 password=p1");
        a.wait_for_close();
        all();
    });
}

#[test]
fn words_about_the_tree() {
    run(&Server::own(), "words_mntr", |s| {
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
        a.call(r#"create "/a" "" persistent"#);
        a.call(r#"create "/e" "" ephemeral"#);
        a.call(r#"getData "/a" watch"#);
        a.call(r#"getChildren "/a" watch"#);
        count();
        s.note("Each request, each ping, each handshake and each word is a packet.");
        let before = value("zk_packets_received");
        a.call(r#"exists "/a""#);
        a.settle();
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
    run(&Server::common(), "words_cons", |s| {
        let mut a = s.client("a");
        a.call(r#"create "/a" "" persistent"#);
        a.call(r#"exists "/a""#);
        let cons = s.word("cons");
        let id = format!("sid=0x{:x},", s.log.borrow().sessions[0].session_id);
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
