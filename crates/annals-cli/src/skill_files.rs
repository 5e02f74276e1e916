//! Files beside skills in sandboxes on other machines, which see no folder of this one: they go into the workspace with its own
//! files, before each use, and what becomes of them there is nobody's change.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals::sandbox::{
    Backend, Bound, ByteStream, Capabilities, ChangeLimits, Changes, Digest, Failure, FailureKind, Limits,
    Manifest, Op, OpResult, OpenError, Opening, Sandbox, Snapshot, TreeFile, TreePut, TreeSource,
};
use async_trait::async_trait;
use futures::StreamExt as _;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::skills::SkillFolder;

/// The folder of skills in such a workspace.
pub(crate) const IN_WORKSPACE: &str = ".skills";

/// Files of all skills together, and their bytes. They are held in memory once a sandbox is used.
const FILES_MAX: usize = 1_000;
const TOTAL_MAX_BYTES: u64 = 16 << 20;

/// The skills whose files go along, and where these lie.
#[derive(Debug, Default)]
pub(crate) struct SkillFiles {
    root: PathBuf,
    /// Folders of skills, relative to the root.
    folders: BTreeSet<PathBuf>,
    /// Files, relative to the root.
    files: Vec<PathBuf>,
    read: OnceCell<Tree>,
}

#[derive(Debug, Default)]
struct Tree {
    manifest: Manifest,
    bytes: BTreeMap<Digest, Vec<u8>>,
}

impl SkillFiles {
    /// Those of these skills, as far as they are small enough: all files of a skill, or none.
    pub(crate) fn of(root: &Path, found: &[SkillFolder]) -> Self {
        let mut chosen = SkillFiles {
            root: root.to_owned(),
            ..SkillFiles::default()
        };
        let mut left_bytes = TOTAL_MAX_BYTES;
        for skill in found.iter().filter(|found| found.skill.is_ok()) {
            let paths = skill.files.iter().map(|file| skill.folder.join(file));
            let paths: Vec<PathBuf> = paths.collect();
            let size = |path: &PathBuf| std::fs::symlink_metadata(root.join(path)).map(|meta| meta.len());
            let Ok(sizes) = paths.iter().map(size).collect::<io::Result<Vec<u64>>>() else {
                continue;
            };
            let bytes: u64 = sizes.iter().sum();
            if bytes > left_bytes || chosen.files.len() + paths.len() > FILES_MAX {
                continue;
            }
            left_bytes -= bytes;
            chosen.folders.insert(skill.folder.clone());
            chosen.files.extend(paths);
        }
        chosen
    }

    /// Where a workspace has the files of this skill, if they go along.
    pub(crate) fn seen_at(&self, workspace: &str, skill: &SkillFolder) -> Option<PathBuf> {
        let inside = Path::new(workspace).join(IN_WORKSPACE).join(&skill.folder);
        self.folders.contains(&skill.folder).then_some(inside)
    }

    async fn tree(self: &Arc<Self>) -> Result<&Tree, Failure> {
        let reading = || async {
            let own = Arc::clone(self);
            let read = tokio::task::spawn_blocking(move || own.read_all()).await;
            read.unwrap_or_else(|error| Err(io::Error::other(error)))
        };
        let tree = self.read.get_or_try_init(reading).await;
        tree.map_err(|error| Failure::new(FailureKind::OsError, format!("files of skills: {error}")))
    }

    fn read_all(&self) -> io::Result<Tree> {
        let mut tree = Tree::default();
        for path in &self.files {
            let mut file = annals_files::open_regular(&self.root.join(path))?;
            let executable = file.metadata()?.mode() & 0o100 != 0;
            // One that has grown since is not sent cut.
            let bytes =
                annals_files::read_at_most(&mut file, TOTAL_MAX_BYTES).map_err(|error| match error {
                    annals_files::ReadError::Io(error) => error,
                    annals_files::ReadError::TooLarge => {
                        io::Error::other(format!("{} has grown", path.display()))
                    }
                })?;
            let digest = Digest::of(&bytes);
            let size_bytes = bytes.len() as u64;
            tree.bytes.insert(digest, bytes);
            let inside = Path::new(IN_WORKSPACE).join(path).to_string_lossy().into_owned();
            let file = TreeFile {
                digest,
                size_bytes,
                executable,
            };
            tree.manifest.0.insert(inside, file);
        }
        Ok(tree)
    }
}

/// A backend on other machines, whose sandboxes have these files.
pub(crate) struct WithSkillFiles {
    backend: Arc<dyn Backend>,
    files: Arc<SkillFiles>,
}

impl WithSkillFiles {
    pub(crate) fn new(backend: Arc<dyn Backend>, files: SkillFiles) -> Self {
        WithSkillFiles {
            backend,
            files: Arc::new(files),
        }
    }
}

#[async_trait]
impl Backend for WithSkillFiles {
    fn name(&self) -> &str {
        self.backend.name()
    }

    fn bounds(&self, limits: &Limits) -> Vec<Bound> {
        self.backend.bounds(limits)
    }

    fn isolates(&self) -> bool {
        self.backend.isolates()
    }

    async fn open(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        Ok(Arc::new(Equipped {
            sandbox: self.backend.open(opening).await?,
            files: Arc::clone(&self.files),
        }))
    }
}

/// A sandbox with the files of skills.
struct Equipped {
    sandbox: Arc<dyn Sandbox>,
    files: Arc<SkillFiles>,
}

/// The workspace's own files, and those of skills.
struct Both<'b> {
    own: &'b dyn TreeSource,
    skills: &'b Tree,
}

#[async_trait]
impl TreeSource for Both<'_> {
    async fn open(&self, digest: &Digest) -> Result<ByteStream, Failure> {
        match self.skills.bytes.get(digest) {
            Some(bytes) => {
                let bytes = bytes.clone();
                Ok(futures::stream::once(async { Ok(bytes.into()) }).boxed())
            }
            None => self.own.open(digest).await,
        }
    }
}

fn is_own(path: &str) -> bool {
    Path::new(path).starts_with(IN_WORKSPACE)
}

#[async_trait]
impl Sandbox for Equipped {
    async fn dispatch(&self, op: Op, cancel: &CancellationToken) -> Result<OpResult, Failure> {
        self.sandbox.dispatch(op, cancel).await
    }

    fn capabilities(&self) -> Capabilities {
        self.sandbox.capabilities()
    }

    async fn put_tree(&self, manifest: &Manifest, source: &dyn TreeSource) -> Result<TreePut, Failure> {
        let skills = self.files.tree().await?;
        let mut whole = manifest.clone();
        let of_skills = skills.manifest.0.iter();
        whole
            .0
            .extend(of_skills.map(|(path, file)| (path.clone(), *file)));
        let both = Both { own: source, skills };
        self.sandbox.put_tree(&whole, &both).await
    }

    async fn snapshot(&self) -> Result<Snapshot, Failure> {
        self.sandbox.snapshot().await
    }

    async fn changed(&self, since: &Snapshot, limits: &ChangeLimits) -> Result<Changes, Failure> {
        let mut changes = self.sandbox.changed(since, limits).await?;
        changes.written.0.retain(|path, _| !is_own(path));
        changes.removed.retain(|path| !is_own(path));
        changes.left_out.retain(|left_out| !is_own(&left_out.path));
        Ok(changes)
    }

    async fn get(&self, path: &str) -> Result<ByteStream, Failure> {
        self.sandbox.get(path).await
    }

    async fn close(&self) {
        self.sandbox.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skills;

    #[test]
    fn the_files_of_a_skill_go_along_whole_or_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        for (skill, size) in [
            ("big", TOTAL_MAX_BYTES as usize),
            ("many", 1),
            ("none", 0),
            ("small", 9),
        ] {
            let folder = root.path().join(skill);
            std::fs::create_dir_all(folder.join("scripts")).unwrap();
            let text = format!("---\nname: {skill}\ndescription: d\n---\nDo it.\n");
            std::fs::write(folder.join("SKILL.md"), text).unwrap();
            let count = match skill {
                "none" => 0,
                "many" => FILES_MAX,
                _ => 2,
            };
            for at in 0..count {
                std::fs::write(folder.join(format!("scripts/{at}")), vec![b'x'; size]).unwrap();
            }
        }
        let found = skills::find(root.path());
        let files = SkillFiles::of(root.path(), &found);
        let seen: Vec<Option<PathBuf>> = found.iter().map(|skill| files.seen_at("/w", skill)).collect();
        let at = |skill: &str| Some(PathBuf::from(format!("/w/.skills/{skill}")));
        assert_eq!(
            seen,
            [None, at("many"), at("none"), None],
            "in the order of their paths"
        );
        let tree = files.read_all().unwrap();
        assert_eq!((tree.manifest.0.len(), tree.bytes.len()), (FILES_MAX, 1));
        assert!(tree.manifest.0.contains_key(".skills/many/scripts/7"));
    }
}
