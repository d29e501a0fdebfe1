//! Paths of znodes: [`ZPath`], and what a client accepts as a path.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::text::debug_as_text;

/// The path of a znode *on the server*, with chroot and namespace: absolute, normalised, and valid
/// by ZooKeeper's rules. Checked once, when it is made.
///
/// It names the same node to every client, whatever its namespace: a path returned by a lock, a
/// guard or a created node can be passed to any method. A path within a client's namespace is text,
/// such as `"/locks/orders"`; [`NodePath`](crate::NodePath) accepts both. Text is converted by
/// [`CuratorClient::resolve`], which adds the chroot and the namespace, or by
/// [`on_server`](Self::on_server), which adds neither.
///
/// The rules are the same as in ZooKeeper's `PathUtils.validatePath`, which the server applies to
/// every request:
///
/// - it starts with `/`, and only the root ends with it;
/// - no part between two slashes is empty, `.` or `..`;
/// - no character is a control character (U+0000 to U+001F, U+007F to U+009F), from a private use
///   area (U+E000 to U+F8FF), one of the specials U+FFF0 to U+FFFF, or beyond U+FFFF: Java
///   represents those, emoji among them, as surrogates, and ZooKeeper forbids surrogates.
///
/// Paths are ordered by their bytes. Clones share the text.
///
/// ```
/// use curator_client::ZPath;
///
/// let lock = ZPath::on_server("/locks/orders")?;
/// assert_eq!(lock.name(), "orders");
/// assert_eq!(lock.parent(), Some(ZPath::on_server("/locks")?));
/// assert_eq!(lock.child("lock-0000000001")?.as_str(), "/locks/orders/lock-0000000001");
/// assert_eq!(
///     ZPath::on_server("locks/orders").unwrap_err().to_string(),
///     r#"invalid path "locks/orders": expected a path that starts with '/'"#,
/// );
/// # Ok::<(), curator_client::InvalidPath>(())
/// ```
///
/// [`CuratorClient::resolve`]: crate::CuratorClient::resolve
/// [`NodePath`]: crate::NodePath
#[derive(Clone)]
pub struct ZPath {
    /// The path is the first `length` bytes of `text`. Its ancestors share the text: copies for all
    /// ancestors of a deep path would together be much longer than the path.
    text: Arc<str>,
    length: usize,
}

impl ZPath {
    /// Parses a path as it is on the server: no chroot or namespace is added.
    ///
    /// # Errors
    ///
    /// [`InvalidPath`] when the text breaks one of the rules.
    pub fn on_server(path: &str) -> Result<Self, InvalidPath> {
        match problem_of(path) {
            None => Ok(Self::from_valid(path.into())),
            Some(reason) => Err(InvalidPath {
                path: path.to_owned(),
                reason,
            }),
        }
    }

    /// The root, `/`.
    #[must_use]
    pub fn root() -> Self {
        Self::from_valid("/".into())
    }

    /// The text of the path, for display or storage. Do not pass it to a client with a namespace,
    /// which resolves text within its namespace: pass the `ZPath` itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.get(..self.length).unwrap_or_default()
    }

    /// Whether this is the root, `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.as_str() == "/"
    }

    /// The last part: `b` for `/a/b`. The root has none; its name is empty.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.as_str().rsplit_once('/') {
            Some((_, name)) => name,
            None => "",
        }
    }

    /// The path without its last part: `/a` for `/a/b`. `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let length = match self.as_str().rsplit_once('/') {
            Some(("", "")) | None => return None,
            Some(("", _)) => "/".len(),
            Some((parent, _)) => parent.len(),
        };
        let parent = self.first(length);
        // Copied if it is less than half of the text, so that a parent does not keep a much longer
        // text in memory. On the way to the root, each copy has at most half the length of the
        // previous one.
        Some(if length < self.text.len() / 2 {
            Self::from_valid(parent.as_str().into())
        } else {
            parent
        })
    }

    /// The node called `name` directly below this one.
    ///
    /// # Errors
    ///
    /// [`InvalidPath`] when `name` is not a single valid part of a path; the error contains `name`.
    pub fn child(&self, name: &str) -> Result<Self, InvalidPath> {
        if name.contains('/') {
            return Err(InvalidPath {
                path: name.to_owned(),
                reason: PathProblem::NotAName,
            });
        }
        self.join(name)
    }

    /// The node at `relative` below this one: `/a` joined with `b/c` is `/a/b/c`.
    ///
    /// # Errors
    ///
    /// [`InvalidPath`] when `relative` is empty, starts with `/`, or breaks a rule; the error
    /// contains `relative`.
    pub fn join(&self, relative: &str) -> Result<Self, InvalidPath> {
        let invalid = |reason| InvalidPath {
            path: relative.to_owned(),
            reason,
        };
        if relative.is_empty() {
            return Err(invalid(PathProblem::Empty));
        }
        if relative.starts_with('/') {
            return Err(invalid(PathProblem::NotRelative));
        }
        let joined = self.concat(relative);
        match problem_of(joined.as_str()) {
            None => Ok(joined),
            Some(reason) => Err(invalid(reason)),
        }
    }

    /// Puts the path inside the namespace (or chroot) `prefix`: `/a` prefixed by `/apps/shop` is
    /// `/apps/shop/a`. The root becomes `prefix` itself. Namespaces nest: prefix with the inner one
    /// first.
    ///
    /// ```
    /// use curator_client::ZPath;
    ///
    /// let path = ZPath::on_server("/locks/a")?;
    /// let namespace = ZPath::on_server("/shop")?;
    /// let full = path.prefixed_by(&namespace);
    /// assert_eq!(full.as_str(), "/shop/locks/a");
    /// assert_eq!(full.strip_prefix(&namespace), Some(path));
    /// # Ok::<(), curator_client::InvalidPath>(())
    /// ```
    #[must_use]
    pub fn prefixed_by(&self, prefix: &Self) -> Self {
        if self.is_root() {
            return prefix.clone();
        }
        if prefix.is_root() {
            return self.clone();
        }
        prefix.concat(self.as_str().trim_start_matches('/'))
    }

    /// The path as seen from inside the namespace `prefix`: the inverse of
    /// [`prefixed_by`](Self::prefixed_by). `None` if the path is neither `prefix` nor below it.
    /// `/ab` is not below `/a`.
    #[must_use]
    pub fn strip_prefix(&self, prefix: &Self) -> Option<Self> {
        if prefix.is_root() {
            return Some(self.clone());
        }
        match self.as_str().strip_prefix(prefix.as_str())? {
            "" => Some(Self::root()),
            rest if rest.starts_with('/') => Some(Self::from_valid(rest.into())),
            _ => None,
        }
    }

    /// Whether this is `ancestor`, or a node below it. Copies nothing.
    #[must_use]
    pub fn is_at_or_below(&self, ancestor: &Self) -> bool {
        let below = self.as_str().strip_prefix(ancestor.as_str());
        ancestor.is_root() || below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }

    /// The nodes above this one, from the top down: `/a`, then `/a/b`, for `/a/b/c`.
    ///
    /// They include neither the root, which always exists, nor the path itself. They share the
    /// path's text.
    #[must_use]
    pub fn ancestors(&self) -> impl DoubleEndedIterator<Item = Self> + '_ {
        self.as_str()
            .match_indices('/')
            .filter(|(index, _)| *index > 0)
            .map(|(index, _)| self.first(index))
    }

    /// Makes a path of a text that is known to be valid.
    fn from_valid(text: Arc<str>) -> Self {
        Self {
            length: text.len(),
            text,
        }
    }

    /// The path of the first `length` bytes.
    fn first(&self, length: usize) -> Self {
        Self {
            text: Arc::clone(&self.text),
            length,
        }
    }

    /// Appends `/relative`, unchecked.
    fn concat(&self, relative: &str) -> Self {
        let parent = if self.is_root() { "" } else { self.as_str() };
        Self::from_valid(format!("{parent}/{relative}").into())
    }
}

/// The first rule that `path` breaks; `None` if it is valid.
fn problem_of(path: &str) -> Option<PathProblem> {
    if path.is_empty() {
        return Some(PathProblem::Empty);
    }
    let Some(parts) = path.strip_prefix('/') else {
        return Some(PathProblem::NotAbsolute);
    };
    if parts.is_empty() {
        return None;
    }
    if let Some(character) = path.chars().find(|character| is_forbidden(*character)) {
        return Some(PathProblem::ForbiddenCharacter(character));
    }
    // Checked before empty names, so that "/a//" is reported for its trailing slash, the more
    // obvious mistake.
    if parts.ends_with('/') {
        return Some(PathProblem::TrailingSlash);
    }
    parts.split('/').find_map(|part| match part {
        "" => Some(PathProblem::EmptyName),
        "." | ".." => Some(PathProblem::RelativeName),
        _ => None,
    })
}

fn is_forbidden(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{1F}' | '\u{7F}'..='\u{9F}' | '\u{E000}'..='\u{F8FF}' | '\u{FFF0}'..=char::MAX
    )
}

/// The error for a text that is not a valid ZooKeeper path.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid path {path:?}: expected {reason}")]
#[non_exhaustive]
pub struct InvalidPath {
    /// The text that was given.
    pub path: String,
    /// The rule that the text breaks.
    pub reason: PathProblem,
}

debug_as_text!(InvalidPath);

/// Writes the path on the server. There is no `Deserialize`: text does not show whether it is a
/// path on the server or within a namespace.
#[cfg(feature = "serde")]
impl serde::Serialize for ZPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The rule that an invalid ZooKeeper path breaks. `Display` describes what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathProblem {
    /// The text is empty.
    Empty,
    /// It does not start with `/`.
    NotAbsolute,
    /// It starts with `/` where a relative path was expected.
    NotRelative,
    /// It contains `/` where the name of one node was expected.
    NotAName,
    /// It ends with `/`.
    TrailingSlash,
    /// There is nothing between two slashes.
    EmptyName,
    /// There is `.` or `..` between two slashes.
    RelativeName,
    /// It contains a character that ZooKeeper does not allow.
    ForbiddenCharacter(char),
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a path that is not empty"),
            Self::NotAbsolute => f.write_str("a path that starts with '/'"),
            Self::NotRelative => f.write_str("a relative path, which does not start with '/'"),
            Self::NotAName => f.write_str("the name of one node, without '/'"),
            Self::TrailingSlash => f.write_str("a path that does not end with '/'"),
            Self::EmptyName => f.write_str("a name between any two slashes"),
            Self::RelativeName => f.write_str("no '.' or '..' as the name of a node"),
            Self::ForbiddenCharacter(character) => {
                write!(
                    f,
                    "only characters that ZooKeeper allows, not U+{:04X}",
                    u32::from(*character)
                )
            }
        }
    }
}

impl PartialEq for ZPath {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for ZPath {}

impl PartialOrd for ZPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ZPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for ZPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for ZPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text, in quotes.
impl fmt::Debug for ZPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Names a node: text, or a [`ZPath`].
///
/// *Text* is a path within the client's namespace: [`CuratorClient::resolve`] adds the chroot and
/// the namespace. A [`ZPath`] is already the path on the server: it is not changed, and so names
/// the same node to every client. So the path of a guard's node, of a lock or of a participant can
/// be passed to any method of a client, with or without a namespace:
///
/// ```no_run
/// # async fn example() -> Result<(), curator_client::Error> {
/// # let client = curator_client::CuratorClient::builder("h").namespace("shop").connect().await?;
/// let created = client.create().for_path("/config", "blue").await?; // /shop/config
/// client.get_data("/config").await?;
/// client.get_data(&created).await?; // the same node
/// # Ok(())
/// # }
/// ```
///
/// So pass the path itself, and not its text: in a namespace, `guard.node().as_str()` would be
/// resolved within the namespace. [`ZPath::child`] and [`ZPath::join`] name the nodes below, and
/// [`CuratorClient::unresolve`] returns the text that names the node in the client's namespace.
///
/// This trait cannot be implemented for types that are not `AsRef<str>`.
///
/// [`CuratorClient::resolve`]: crate::CuratorClient::resolve
/// [`CuratorClient::unresolve`]: crate::CuratorClient::unresolve
pub trait NodePath: sealed::Resolve {}

impl<T: sealed::Resolve> NodePath for T {}

mod sealed {
    use crate::path::{InvalidPath, ZPath};

    pub trait Resolve {
        /// The path on the server, for a client whose paths are all under `root`.
        fn resolve(self, root: &ZPath) -> Result<ZPath, InvalidPath>;
    }

    impl<T: AsRef<str>> Resolve for T {
        fn resolve(self, root: &ZPath) -> Result<ZPath, InvalidPath> {
            Ok(ZPath::on_server(self.as_ref())?.prefixed_by(root))
        }
    }

    impl Resolve for ZPath {
        fn resolve(self, _root: &ZPath) -> Result<ZPath, InvalidPath> {
            Ok(self)
        }
    }

    impl Resolve for &ZPath {
        fn resolve(self, _root: &ZPath) -> Result<ZPath, InvalidPath> {
            Ok(self.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> ZPath {
        ZPath::on_server(text).unwrap()
    }

    #[test]
    fn a_path_that_zookeeper_refuses_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", PathProblem::Empty),
            ("a", PathProblem::NotAbsolute),
            ("//", PathProblem::TrailingSlash),
            ("/a/", PathProblem::TrailingSlash),
            ("//a", PathProblem::EmptyName),
            ("/a//b", PathProblem::EmptyName),
            ("/.", PathProblem::RelativeName),
            ("/..", PathProblem::RelativeName),
            ("/a/..", PathProblem::RelativeName),
            ("/a\0b", PathProblem::ForbiddenCharacter('\0')),
            ("/\u{1F}", PathProblem::ForbiddenCharacter('\u{1F}')),
            ("/\u{7F}", PathProblem::ForbiddenCharacter('\u{7F}')),
            ("/\u{9F}", PathProblem::ForbiddenCharacter('\u{9F}')),
            ("/\u{E000}", PathProblem::ForbiddenCharacter('\u{E000}')),
            ("/\u{FFF0}", PathProblem::ForbiddenCharacter('\u{FFF0}')),
            ("/\u{FFFD}", PathProblem::ForbiddenCharacter('\u{FFFD}')),
            ("/🔒", PathProblem::ForbiddenCharacter('🔒')),
        ] {
            assert_eq!(
                ZPath::on_server(text),
                Err(InvalidPath {
                    path: text.to_owned(),
                    reason
                }),
                "{text:?}"
            );
        }
    }

    #[test]
    fn the_root_has_no_name_and_no_parent_and_adds_nothing_as_a_prefix() {
        let root = ZPath::root();
        assert!(root.is_root());
        assert_eq!(root, path("/"));
        assert_eq!(root.name(), "");
        assert_eq!(root.parent(), None);
        assert_eq!(root.ancestors().count(), 0);
        assert_eq!(root.child("a").unwrap(), path("/a"));
        assert_eq!(path("/a").parent(), Some(root.clone()));
        assert!(!path("/a").is_root());
        assert_eq!(root.prefixed_by(&root), root);
        assert_eq!(path("/a").prefixed_by(&root), path("/a"));
        assert_eq!(root.prefixed_by(&path("/a")), path("/a"));
        assert_eq!(path("/a").strip_prefix(&path("/a")), Some(root));
    }

    #[test]
    fn strip_prefix_matches_whole_names_only() {
        assert_eq!(path("/ab").strip_prefix(&path("/a")), None);
        assert_eq!(path("/a").strip_prefix(&path("/a/b")), None);
        assert_eq!(path("/a/b").strip_prefix(&path("/a")), Some(path("/b")));
    }

    #[test]
    fn child_takes_one_name_and_join_takes_a_relative_path() {
        let a = path("/a");
        assert_eq!(a.join("b/c").unwrap(), path("/a/b/c"));
        for (result, text, reason) in [
            (a.child("b/c"), "b/c", PathProblem::NotAName),
            (a.child("/b"), "/b", PathProblem::NotAName),
            (a.child(""), "", PathProblem::Empty),
            (a.child(".."), "..", PathProblem::RelativeName),
            (a.child("b\0"), "b\0", PathProblem::ForbiddenCharacter('\0')),
            (a.join("/b"), "/b", PathProblem::NotRelative),
            (a.join(""), "", PathProblem::Empty),
            (a.join("b/"), "b/", PathProblem::TrailingSlash),
            (a.join("b//c"), "b//c", PathProblem::EmptyName),
            (a.join("../b"), "../b", PathProblem::RelativeName),
        ] {
            assert_eq!(
                result,
                Err(InvalidPath {
                    path: text.to_owned(),
                    reason
                })
            );
        }
    }

    #[test]
    fn ancestors_share_the_text_of_a_path_and_equal_separate_paths() {
        let path = path("/a/bc/d");
        let above: Vec<_> = path.ancestors().chain(path.parent()).collect();
        let texts = ["/a", "/a/bc", "/a/bc"];
        assert_eq!(above.iter().map(ZPath::as_str).collect::<Vec<_>>(), texts);
        for (shared, text) in above.iter().zip(texts) {
            assert_eq!(shared.as_str().as_ptr(), path.as_str().as_ptr());
            let separate = ZPath::on_server(text).unwrap();
            assert_eq!(
                (shared, shared.cmp(&separate)),
                (&separate, Ordering::Equal)
            );
            assert!(std::collections::HashSet::from([separate]).contains(shared));
            assert_eq!(shared.to_string(), text);
        }
        let root = above[0].parent().unwrap();
        assert!(root.is_root() && root == ZPath::root() && above[0] > root && above[1] > above[0]);
    }

    #[test]
    fn the_parent_of_a_path_with_a_long_name_does_not_keep_the_name() {
        let child = path(&format!("/a/{}", "x".repeat(1_000)));
        let parent = child.parent().unwrap();
        assert_eq!((parent.as_str(), parent.text.len()), ("/a", 2));
        let mut above = path(&"/a".repeat(1_000));
        let mut kept = 0;
        while let Some(parent) = above.parent() {
            if parent.text.as_ptr() != above.text.as_ptr() {
                kept += parent.text.len();
            }
            assert!(parent.text.len() <= 2 * parent.as_str().len() + 1);
            above = parent;
        }
        assert!(kept <= 2_000, "{kept} bytes are copied");
    }

    /// The same rules, from ZooKeeper's description in UTF-16 units, one unit at a time.
    fn zookeeper_accepts(text: &str) -> bool {
        let units: Vec<u16> = text.encode_utf16().collect();
        let unit = |character: char| u16::try_from(u32::from(character)).unwrap();
        let slash = unit('/');
        let dot = unit('.');
        if units == [slash] {
            return true;
        }
        if units.first() != Some(&slash) || units.last() == Some(&slash) {
            return false;
        }
        if units.iter().any(|unit| {
            matches!(
                unit,
                0..=0x1F | 0x7F..=0x9F | 0xD800..=0xF8FF | 0xFFF0..=0xFFFF
            )
        }) {
            return false;
        }
        units[1..]
            .split(|unit| *unit == slash)
            .all(|name| !name.is_empty() && *name != [dot] && *name != [dot, dot])
    }

    /// Valid names, including borderline cases.
    fn name() -> impl Strategy<Value = String> {
        "[a-z.é日 _-]{1,6}".prop_filter("not relative", |name| name != "." && name != "..")
    }

    fn any_path() -> impl Strategy<Value = ZPath> {
        vec(name(), 0..5).prop_map(|names| path(&format!("/{}", names.join("/"))))
    }

    proptest! {
        #[test]
        fn text_is_valid_exactly_if_zookeeper_accepts_it(
            special in "[/.a\\x00\\x1f\\x7f\\u{9f}\\u{a0}\\u{e000}\\u{fff0}🔒]{0,8}",
            arbitrary in any::<String>(),
        ) {
            for text in [special, format!("/{arbitrary}")] {
                prop_assert_eq!(ZPath::on_server(&text).is_ok(), zookeeper_accepts(&text), "{:?}", text);
            }
        }

        #[test]
        fn child_and_parent_are_inverse(path in any_path(), name in name()) {
            let child = path.child(&name).unwrap();
            prop_assert!(zookeeper_accepts(child.as_str()));
            prop_assert_eq!(child.name(), name);
            prop_assert_eq!(child.parent(), Some(path));
        }

        #[test]
        fn prefix_and_strip_are_inverse(path in any_path(), prefix in any_path()) {
            let full = path.prefixed_by(&prefix);
            prop_assert!(zookeeper_accepts(full.as_str()));
            prop_assert_eq!(full.strip_prefix(&prefix), Some(path));
        }

        #[test]
        fn a_path_is_at_or_below_another_exactly_if_that_can_be_stripped(one in any_path(), other in any_path()) {
            for path in [one.prefixed_by(&other), one] {
                prop_assert_eq!(path.is_at_or_below(&other), path.strip_prefix(&other).is_some());
            }
        }

        #[test]
        fn ancestors_are_all_parents_below_the_root(path in any_path()) {
            let parents = std::iter::successors(path.parent(), ZPath::parent).filter(|parent| !parent.is_root());
            prop_assert!(path.ancestors().rev().eq(parents));
        }
    }
}
