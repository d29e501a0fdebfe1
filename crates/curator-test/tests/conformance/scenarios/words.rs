//! Four-letter words.

use crate::{scenario::run, server::Server};

#[test]
fn four_letter_word_replies_have_the_recorded_format() {
    run(&Server::common(), "words", |s| {
        s.line(&format!("ruok: {:?}", s.word("ruok")));
        s.line("srvr:");
        for line in s.word("srvr").lines() {
            // The rest of the line varies.
            s.line(&format!(
                "  {}",
                line.split_inclusive(':').next().unwrap_or_default()
            ));
        }
        s.note("Other bytes are the length of a frame, which is too long.");
        let mut a = s.open("a");
        a.send(&["<61626364> abcd"]);
        a.wait_for_close();
    });
}

#[test]
fn the_cons_reply_has_the_recorded_fields() {
    run(&Server::common(), "words_cons", |s| {
        let mut a = s.client("a");
        a.call(r#"create "/a" "" persistent"#);
        a.call(r#"exists "/a""#);
        let cons = s.word("cons");
        let id = format!("sid=0x{:x},", s.log.borrow().sessions[0].session_id);
        let line = cons
            .lines()
            .find(|line| line.contains(&id))
            .unwrap_or_default();
        let parts: Vec<&str> = line.split(['[', ']', '(', ')', ',']).collect();
        s.line(&format!("{:?}", parts[0].split(':').next().unwrap()));
        // 0 while the server processes the connection, which may last a moment longer than the
        // reply takes.
        assert!(["0", "1"].contains(&parts[1]), "{line}");
        for part in &parts[2..] {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let fixed = ["recved", "lop", "to", "lcxid"].contains(&key);
            s.line(&format!("{key}={}", if fixed { value } else { "…" }));
        }
    });
}
