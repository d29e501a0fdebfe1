//! Formats the fields of the log, and truncates paths and errors to 300 bytes and lists to 4
//! members.

use std::fmt::{self, Display, Formatter, Write};

use curator_client::ZPath;
use curator_protocol::Request;

/// The most bytes of one path or one error.
const MAX_BYTES: usize = 300;

/// The most members of a list.
const MAX_MEMBERS: usize = 4;

/// A text that is cut off if it is too long.
pub(crate) struct Truncated<T>(pub(crate) T);

/// Writes at most `left` bytes.
struct Room<'a, 'b> {
    formatter: &'a mut Formatter<'b>,
    left: usize,
}

impl Write for Room<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut end = self.left.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.formatter.write_str(&text[..end])?;
        self.left -= end;
        // The error stops the formatting of the rest.
        if end < text.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

impl<T: Display> Display for Truncated<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut room = Room {
            formatter: f,
            left: MAX_BYTES,
        };
        let is_whole = write!(room, "{}", self.0).is_ok();
        if is_whole { Ok(()) } else { f.write_str("…") }
    }
}

/// The first [`MAX_MEMBERS`] paths, and the number of the others.
pub(super) struct Paths<'a>(pub(super) &'a [ZPath]);

impl Display for Paths<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, path) in self.0.iter().take(MAX_MEMBERS).enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{}", Truncated(path))?;
        }
        match self.0.len().saturating_sub(MAX_MEMBERS) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The kinds of a pipeline's requests, in order; consecutive requests of one kind are counted.
pub(super) struct Requests<'a>(pub(super) &'a [(usize, Request)]);

impl Display for Requests<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, same) in self
            .0
            .chunk_by(|(_, one), (_, next)| kind(one) == kind(next))
            .enumerate()
        {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{}", kind(&same[0].1))?;
            if same.len() > 1 {
                write!(f, " x{}", same.len())?;
            }
        }
        Ok(())
    }
}

fn kind(request: &Request) -> &'static str {
    match request {
        Request::Create => "create",
        Request::CreateWithParents => "create with parents",
        Request::Sync => "sync",
        Request::List => "list",
        Request::WatchList => "list and watch",
        Request::Inspect { .. } => "read",
        Request::WatchAhead { .. } => "watch a node before ours",
        Request::WatchOwn { .. } => "watch our node",
        Request::Limit => "read the limit",
        Request::WatchLimit => "read and watch the limit",
        Request::CreateLimit => "create the limit",
        Request::Take { .. } => "take leases",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_truncated_at_a_character_boundary() {
        assert_eq!(Truncated("/locks/ä").to_string(), "/locks/ä");
        let exact = "x".repeat(MAX_BYTES);
        assert_eq!(Truncated(&exact).to_string(), exact);
        let long = format!("{}ää", "x".repeat(MAX_BYTES - 1));
        assert_eq!(
            Truncated(&long).to_string(),
            format!("{}…", "x".repeat(MAX_BYTES - 1))
        );
    }

    #[test]
    fn requests_of_one_kind_are_logged_with_their_count() {
        let own = |queue| {
            (
                queue,
                Request::WatchOwn {
                    name: "n".to_owned(),
                },
            )
        };
        let requests = [
            (0, Request::Create),
            (1, Request::Create),
            own(0),
            (0, Request::List),
        ];
        assert_eq!(
            Requests(&requests).to_string(),
            "create x2, watch our node, list"
        );
    }
}
