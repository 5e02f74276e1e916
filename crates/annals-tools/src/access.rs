//! What a call reads and writes, and so which calls of one answer may run together.
//!
//! Two calls *conflict* when one writes what the other reads or writes. Conflicting calls run in the order the model gave
//! them, and the later one starts after the earlier one's result is on the timeline; all others run together. A tool
//! declares its uses in its [`ToolSpec`](crate::ToolSpec). One that declares nothing conflicts with nobody until it asks
//! for the sandbox; from there on it counts as writing the workspace.

use std::borrow::Cow;
use std::sync::Arc;

use annals_core::ids::TurnId;
use annals_core::path::{PhysicalPath, rewrite};
use serde_json::Value;
use tokio::sync::watch;

/// What a tool declares that its calls use, before there are arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uses {
    /// The whole working tree.
    Workspace,
    /// The file or folder, relative to the working tree, that this parameter names.
    WorkspacePath(Cow<'static, str>),
    /// The file of the running turn that this parameter names, in any of the forms models write.
    TurnFile(Cow<'static, str>),
    /// Something with a name of its own, such as `plan` or `db:{table}`; `{parameter}` is replaced by the argument.
    Named(Cow<'static, str>),
}

impl Uses {
    /// Something with a name of its own.
    pub fn named(template: impl Into<Cow<'static, str>>) -> Self {
        Uses::Named(template.into())
    }

    fn of_call(&self, turn: &TurnId, args: &Value) -> Resource {
        let text = |name: &str| args.get(name).and_then(Value::as_str);
        match self {
            Uses::Workspace => Resource::Workspace,
            Uses::WorkspacePath(param) => text(param).map_or(Resource::Workspace, Resource::workspace_path),
            Uses::TurnFile(param) => {
                text(param).map_or(Resource::Workspace, |path| Resource::turn_file(turn, path))
            }
            Uses::Named(template) => Resource::Named(fill(template, args).into()),
        }
    }
}

/// One thing that a call uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// The whole working tree.
    Workspace,
    /// One file or folder below it, with everything in it. No part is `.`, `..` or empty.
    Path(Arc<str>),
    /// Something outside the working tree, by name.
    Named(Arc<str>),
}

impl Resource {
    /// A path relative to the working tree. One that cannot be told apart from others is the whole tree.
    pub fn workspace_path(path: &str) -> Self {
        let parts: Vec<&str> = path
            .split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .collect();
        if path.starts_with('/') || parts.is_empty() || parts.contains(&"..") {
            return Resource::Workspace;
        }
        Resource::Path(parts.join("/").into())
    }

    /// The file of this turn that a tool which writes would write to.
    pub fn turn_file(turn: &TurnId, path: &str) -> Self {
        match rewrite::target(path, turn) {
            Ok(target) => match target.logical(turn).physical() {
                Some(path) => Resource::physical(&path),
                None => Resource::Workspace,
            },
            // Such a call is refused by its tool and touches nothing; the text still tells two of them apart.
            Err(_) => Resource::Named(format!("path:{path}").into()),
        }
    }

    /// A file that a logical path names.
    pub fn physical(path: &PhysicalPath) -> Self {
        Resource::Path(path.as_str().into())
    }

    fn overlaps(&self, other: &Resource) -> bool {
        let is_inside = |inner: &str, outer: &str| {
            inner
                .strip_prefix(outer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match (self, other) {
            (Resource::Named(a), Resource::Named(b)) => a == b,
            (Resource::Path(a), Resource::Path(b)) => is_inside(a, b) || is_inside(b, a),
            (Resource::Named(_), _) | (_, Resource::Named(_)) => false,
            (Resource::Workspace, _) | (_, Resource::Workspace) => true,
        }
    }
}

/// What one call reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    reads: Vec<Resource>,
    writes: Vec<Resource>,
}

impl Access {
    /// Neither reads nor writes anything that another call could.
    pub const NOTHING: Access = Access {
        reads: Vec::new(),
        writes: Vec::new(),
    };

    /// What these declarations mean for a call with these arguments.
    pub fn of_call(reads: &[Uses], writes: &[Uses], turn: &TurnId, args: &Value) -> Self {
        let uses = |declared: &[Uses]| declared.iter().map(|uses| uses.of_call(turn, args)).collect();
        Access {
            reads: uses(reads),
            writes: uses(writes),
        }
    }

    /// Reads this too.
    #[must_use]
    pub fn read(mut self, resource: Resource) -> Self {
        self.reads.push(resource);
        self
    }

    /// Writes this too.
    #[must_use]
    pub fn write(mut self, resource: Resource) -> Self {
        self.writes.push(resource);
        self
    }

    /// Whether the order of the two calls matters.
    pub fn conflicts_with(&self, other: &Access) -> bool {
        let meet = |writes: &[Resource], uses: &Access| {
            writes.iter().any(|write| {
                uses.reads
                    .iter()
                    .chain(&uses.writes)
                    .any(|used| write.overlaps(used))
            })
        };
        meet(&self.writes, other) || meet(&other.writes, self)
    }

    fn workspace() -> Self {
        Access::NOTHING.write(Resource::Workspace)
    }
}

/// The order of the calls of one answer: who waits for whom.
#[derive(Debug)]
pub struct CallOrder {
    /// What each call uses; `None` when its tool does not say.
    calls: Vec<Option<Access>>,
    settled: watch::Sender<Settled>,
    said: watch::Sender<Said>,
}

/// What has become of the calls that began: one bit a call.
#[derive(Clone, Copy, Debug, Default)]
struct Settled {
    /// Its result is written, or will never be.
    done: u64,
    /// It asked a person or a client, and is run again later.
    parked: u64,
}

/// What is known of the calls of one answer: one bit a call.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    /// May run, or has its result.
    cleared: u64,
    /// Waits for a person.
    waits: u64,
}

impl CallOrder {
    /// The order of calls that use these things. At most 64 are told apart, which is all one answer may hold; a later
    /// call waits for nobody.
    pub fn new(calls: Vec<Option<Access>>) -> Arc<Self> {
        Arc::new(CallOrder {
            calls,
            settled: watch::Sender::default(),
            said: watch::Sender::default(),
        })
    }

    /// The place of one call in it.
    pub fn place(self: &Arc<Self>, at: usize) -> CallPlace {
        CallPlace {
            order: self.clone(),
            at,
        }
    }

    /// The call's result is written: calls that wait for it may start.
    pub fn settle(&self, at: usize) {
        self.settled.send_modify(|settled| settled.done |= bit(at));
    }

    /// The call waits for an answer: calls that conflict with it wait with it.
    pub fn park(&self, at: usize) {
        self.settled.send_modify(|settled| settled.parked |= bit(at));
    }

    /// The earlier calls that one with this access has to wait for.
    fn before(&self, at: usize, access: &Access) -> u64 {
        let undeclared = Access::workspace();
        let earlier = self.calls.iter().take(at).enumerate();
        earlier
            .filter(|(_, other)| access.conflicts_with(other.as_ref().unwrap_or(&undeclared)))
            .fold(0, |waits, (at, _)| waits | bit(at))
    }

    /// Waits until these calls have ended; false when one of them is parked.
    async fn wait_for(&self, calls: u64) -> bool {
        let mut settled = self.settled.subscribe();
        let ended = |settled: &Settled| (settled.done | settled.parked) & calls == calls;
        // The sender lives as long as `self`, so this cannot fail.
        let settled = settled.wait_for(ended).await;
        settled.is_ok_and(|settled| settled.parked & calls == 0)
    }
}

fn bit(at: usize) -> u64 {
    u32::try_from(at)
        .ok()
        .and_then(|at| 1_u64.checked_shl(at))
        .unwrap_or(0)
}

/// One call's place in the order of its answer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CallPlace {
    order: Arc<CallOrder>,
    at: usize,
}

impl CallPlace {
    /// Waits until every earlier call that conflicts with this one has its result on the timeline. False when one of them
    /// waits for an answer: then this one waits with it.
    pub async fn wait(&self) -> bool {
        let Some(access) = self.order.calls.get(self.at).and_then(Option::as_ref) else {
            return true;
        };
        self.order.wait_for(self.order.before(self.at, access)).await
    }

    /// Waits until this call may use the sandbox. A tool that declares its uses has waited before it started.
    pub(crate) async fn wait_for_workspace(&self) {
        if matches!(self.order.calls.get(self.at), Some(None)) {
            let waits = self.order.before(self.at, &Access::workspace());
            // This call runs already, and cannot wait for a person.
            let _ = self.order.wait_for(waits).await;
        }
    }

    /// Nobody needs to be asked about this call.
    pub fn clear(&self) {
        let call = bit(self.at);
        self.order.said.send_modify(|said| said.cleared |= call);
    }

    /// This call waits for a person, and the calls after it wait with it.
    pub fn hold_later(&self) {
        let call = bit(self.at);
        self.order.said.send_modify(|said| said.waits |= call);
    }

    /// Waits until it is known of every earlier call whether it may run. False when one of them waits for a person:
    /// results are written in the order of the calls, so this one has to wait too.
    pub async fn is_cleared(&self) -> bool {
        let earlier = (0..self.at).fold(0, |calls, at| calls | bit(at));
        let mut said = self.order.said.subscribe();
        let known = said
            .wait_for(|said| said.cleared & earlier == earlier || said.waits & earlier != 0)
            .await;
        known.is_ok_and(|said| said.waits & earlier == 0)
    }
}

/// The template with `{name}` replaced by the argument of that name. What is not an argument stays.
fn fill(template: &str, args: &Value) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            filled.push('{');
            rest = after;
            continue;
        };
        match args.get(name) {
            Some(Value::String(text)) => filled.push_str(text),
            Some(value) => filled.push_str(&value.to_string()),
            None => filled.push_str(&format!("{{{name}}}")),
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn() -> TurnId {
        TurnId::parse("turn_1").unwrap()
    }

    fn path(text: &str) -> Resource {
        Resource::workspace_path(text)
    }

    #[test]
    fn a_template_takes_its_arguments_and_keeps_the_rest() {
        let args = json!({"path": "a.md", "n": 3});
        for (template, key) in [
            ("db", "db"),
            ("file:{path}", "file:a.md"),
            ("{n}-{x}", "3-{x}"),
            ("a{b", "a{b"),
            ("{}", "{}"),
        ] {
            assert_eq!(fill(template, &args), key);
        }
    }

    #[test]
    fn every_form_of_a_file_is_one_resource_and_files_of_two_folders_are_two() {
        let plain = Resource::turn_file(&turn(), "a.md");
        for form in [
            "files/a.md",
            "turn_1/files/a.md",
            "fi:turn_1.files/a.md",
            "./a.md",
        ] {
            assert_eq!(Resource::turn_file(&turn(), form), plain);
        }
        assert_eq!(plain, path("turn_1/files/a.md"));
        let write = |name| Access::NOTHING.write(Resource::turn_file(&turn(), name));
        assert!(!write("one/a.md").conflicts_with(&write("two/a.md")));
    }

    #[test]
    fn calls_conflict_where_one_writes_what_the_other_uses() {
        let read = |resource| Access::NOTHING.read(resource);
        let write = |resource| Access::NOTHING.write(resource);
        for (a, b, conflict) in [
            (read(Resource::Workspace), read(Resource::Workspace), false),
            (write(Resource::Workspace), read(path("a")), true),
            (write(path("a/b")), read(path("a")), true),
            (write(path("a/b")), read(path("a/bc")), false),
            (write(path("../x")), read(path("a")), true),
            (
                write(Resource::Named("db".into())),
                write(Resource::Workspace),
                false,
            ),
            (
                write(Resource::Named("db".into())),
                read(Resource::Named("db".into())),
                true,
            ),
            (Access::NOTHING, write(Resource::Workspace), false),
        ] {
            assert_eq!(a.conflicts_with(&b), conflict, "{a:?} {b:?}");
            assert_eq!(b.conflicts_with(&a), conflict, "{b:?} {a:?}");
        }
    }

    #[tokio::test]
    async fn a_call_waits_for_what_it_conflicts_with_until_that_is_written() {
        let write = || Some(Access::NOTHING.write(Resource::Workspace));
        let order = CallOrder::new(vec![write(), Some(Access::NOTHING), write(), None]);
        assert!(order.place(1).wait().await);
        assert!(order.place(3).wait().await);
        let waits = tokio::spawn({
            let place = order.place(2);
            async move { place.wait().await }
        });
        let uses_the_sandbox = tokio::spawn({
            let place = order.place(3);
            async move { place.wait_for_workspace().await }
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        order.settle(0);
        assert!(waits.await.unwrap());
        assert!(!uses_the_sandbox.is_finished(), "the call between still runs");
        order.settle(2);
        uses_the_sandbox.await.unwrap();
    }

    #[tokio::test]
    async fn a_call_that_conflicts_with_one_that_asks_does_not_start() {
        let write = || Some(Access::NOTHING.write(Resource::Workspace));
        let order = CallOrder::new(vec![write(), Some(Access::NOTHING), write()]);
        order.park(0);
        assert!(order.place(1).wait().await, "it has nothing to do with it");
        assert!(!order.place(2).wait().await);
    }
}
