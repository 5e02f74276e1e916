//! The root a sandbox sees: an empty file system with read-only views of what programs need, the workspace, a
//! private `/tmp`, `/proc` and a `/dev` of harmless devices. Everything else of the host is not hidden but absent.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use super::context::{self, ContextSocket};
use super::identity::INSIDE_ID;
use super::syscalls::{self, Depth};
use super::wire::{OpenRequest, Refusal};
use crate::limits::Limits;
use crate::spec::Layer;

/// Where programs may leave temporary files.
pub(super) const SCRATCH: &str = "/tmp";

/// Where the program of a helper process appears.
pub(crate) const HELPER: &str = "/annals-helper";

/// Directories programs are made of; each appears as it is on the host: a directory, a link, or not at all.
const SYSTEM: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/alternatives",
];

/// Small files of `/etc` that libraries expect; nothing in them tells about this machine's users or network.
const ETC: [&str; 6] = [
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/protocols",
    "/etc/services",
    "/etc/fonts",
];

const DEVICES: [&str; 4] = ["/dev/null", "/dev/full", "/dev/random", "/dev/urandom"];

/// A shared mapping of this device is memory without a file, which cannot be counted. So where memory is counted, a sparse
/// file stands in its place: it reads the same, and is part of the root, which is small and read-only.
const ZERO: &str = "/dev/zero";
const ZERO_BYTES: u64 = i64::MAX as u64;

const RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
const NODEV: u64 = libc::MOUNT_ATTR_NODEV;
const NOEXEC: u64 = libc::MOUNT_ATTR_NOEXEC;
const IDMAP: u64 = libc::MOUNT_ATTR_IDMAP;

/// A piece of the host, not yet placed.
struct Piece {
    tree: OwnedFd,
    at: PathBuf,
    is_directory: bool,
}

/// Builds the root and moves this process into it.
pub(super) fn enter(request: &OpenRequest, ids: Option<&OwnedFd>) -> Result<Option<ContextSocket>, Refusal> {
    let limits = request.limits.clone().unwrap_or_default();
    privately().map_err(|error| Refusal::of(Layer::Mount, "could not make mounts private", error))?;
    // All pieces are taken before the new root is mounted, which may cover some of their places.
    let mut pieces = system_pieces(request)?;
    pieces.extend(given_pieces(request, ids)?);
    build(pieces, request, &limits)
        .map_err(|error| Refusal::of(Layer::Mount, "could not build the root", error))
}

fn privately() -> io::Result<()> {
    use rustix::mount::{MountPropagationFlags, mount_change};
    Ok(mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?)
}

fn system_pieces(request: &OpenRequest) -> Result<Vec<Piece>, Refusal> {
    let mut pieces = Vec::new();
    let present = SYSTEM
        .iter()
        .map(Path::new)
        .chain(request.prefixes.iter().map(PathBuf::as_path));
    for path in present.filter(|path| path.symlink_metadata().is_ok_and(|found| !found.is_symlink())) {
        pieces.push(piece(path, path, RDONLY | NOSUID | NODEV, None)?);
    }
    if request.helper.is_some() {
        pieces.push(own_program()?);
    }
    let devices = DEVICES
        .into_iter()
        .chain(request.cgroup_bounds_memory.then_some(ZERO));
    for path in devices.map(Path::new) {
        pieces.push(piece(path, path, NOSUID | NOEXEC, None)?);
    }
    Ok(pieces)
}

/// The launcher's own program. By its path: the link itself leads into the mount namespace that was left.
fn own_program() -> Result<Piece, Refusal> {
    let program =
        std::fs::read_link("/proc/self/exe").map_err(|error| refusal("the program of the helper", error))?;
    if !program.exists() {
        return Err(Refusal {
            layer: None,
            reason: format!(
                "the program `{}` was removed or replaced while it runs: start it again",
                program.display()
            ),
        });
    }
    piece(&program, Path::new(HELPER), RDONLY | NOSUID | NODEV, None)
}

fn given_pieces(request: &OpenRequest, ids: Option<&OwnedFd>) -> Result<Vec<Piece>, Refusal> {
    let workspace_access = if request.writable_subdirs.is_some() {
        RDONLY
    } else {
        0
    };
    let mut pieces = Vec::new();
    let Some(workspace) = &request.workspace else {
        return Ok(pieces);
    };
    pieces.push(piece(
        workspace,
        &request.inside,
        workspace_access | NOSUID | NODEV,
        ids,
    )?);
    for subdir in request.writable_subdirs.iter().flatten() {
        let handle = open_below(workspace, subdir).map_err(|error| {
            refusal(
                &format!("writable directory `{}` of the workspace", subdir.display()),
                error,
            )
        })?;
        let tree = take(handle.as_fd(), NOSUID | NODEV, ids).map_err(|error| blame(ids, workspace, error))?;
        pieces.push(Piece {
            tree,
            at: request.inside.join(subdir),
            is_directory: true,
        });
    }
    for bind in &request.read_only {
        pieces.push(piece(&bind.host, &bind.inside, RDONLY | NOSUID | NODEV, ids)?);
    }
    for bind in &request.writable {
        pieces.push(piece(&bind.host, &bind.inside, NOSUID | NODEV, ids)?);
    }
    pieces.sort_by_key(|piece| piece.at.components().count());
    Ok(pieces)
}

fn refusal(what: &str, error: io::Error) -> Refusal {
    Refusal {
        layer: None,
        reason: format!("{what} cannot appear inside: {error}"),
    }
}

/// An id-mapped mount that the file system refused is a layer this machine lacks; anything else is a plain error.
fn blame(ids: Option<&OwnedFd>, host: &Path, error: io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EPERM | libc::ENOSYS | libc::EOPNOTSUPP) if ids.is_some() => Refusal {
            layer: Some(Layer::UnprivilegedUid),
            reason: format!(
                "the file system of `{}` has no id-mapped mounts ({error})",
                host.display()
            ),
        },
        _ => refusal(&format!("`{}`", host.display()), error),
    }
}

fn piece(host: &Path, at: &Path, attributes: u64, ids: Option<&OwnedFd>) -> Result<Piece, Refusal> {
    let handle = fs::open(host, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| refusal(&format!("`{}`", host.display()), error.into()))?;
    let kind = fs::fstat(&handle).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let is_directory = kind.is_ok_and(|kind| kind == FileType::Directory);
    let tree = take(handle.as_fd(), attributes, ids).map_err(|error| blame(ids, host, error))?;
    Ok(Piece {
        tree,
        at: at.to_owned(),
        is_directory,
    })
}

/// A detached copy of the mounts at and below `handle`, with `attributes` on each.
fn take(handle: BorrowedFd<'_>, attributes: u64, ids: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = rustix::mount::open_tree(handle, "", flags)?;
    let (set, namespace) = match ids {
        Some(ids) => (attributes | IDMAP, ids.as_raw_fd() as u64),
        None => (attributes, 0),
    };
    syscalls::mount_setattr(tree.as_fd(), [set, 0, 0, namespace], Depth::Recursive)?;
    Ok(tree)
}

/// A directory below `root`, reached without following any link: programs may have planted some.
fn open_below(root: &Path, relative: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = fs::open(root, flags, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(fs::openat2(root, relative, flags, Mode::empty(), resolve)?)
}

fn build(pieces: Vec<Piece>, request: &OpenRequest, limits: &Limits) -> io::Result<Option<ContextSocket>> {
    let base = if Path::new("/tmp").is_dir() {
        "/tmp"
    } else {
        "/mnt"
    };
    let links = system_links();
    let etc = etc_files();
    mount_scratch(base, 0o755, 16 << 20)?;
    let root = fs::open(
        base,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    for (path, target) in links {
        fs::symlinkat(target, &root, below_root(&path))?;
    }
    for (path, bytes) in etc {
        drop(point(root.as_fd(), &path, FileType::RegularFile)?);
        std::fs::write(Path::new(base).join(below_root(&path)), bytes)?;
    }
    if !request.cgroup_bounds_memory {
        drop(point(root.as_fd(), Path::new(ZERO), FileType::RegularFile)?);
        let zero = std::fs::OpenOptions::new()
            .write(true)
            .open(Path::new(base).join(below_root(Path::new(ZERO))))?;
        zero.set_len(ZERO_BYTES)?;
    }
    // Before the pieces, some of which may be asked for below these.
    for (path, mode) in [(SCRATCH, 0o1777), ("/dev/shm", 0o1777)] {
        drop(point(root.as_fd(), Path::new(path), FileType::Directory)?);
        mount_scratch(
            Path::new(base).join(below_root(Path::new(path))),
            mode,
            limits.scratch_bytes,
        )?;
    }
    for piece in pieces {
        let kind = if piece.is_directory {
            FileType::Directory
        } else {
            FileType::RegularFile
        };
        let target = point(root.as_fd(), &piece.at, kind)?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(&piece.tree, "", &target, "", flags)?;
    }
    for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        fs::symlinkat(format!("/proc/self/fd{target}"), &root, format!("dev/{name}"))?;
    }
    drop(point(root.as_fd(), Path::new("/proc"), FileType::Directory)?);
    if request.has(Layer::Pid) {
        mount_proc(&Path::new(base).join("proc"))?;
    }
    let folder = Path::new(context::FOLDER);
    let context = request
        .has_context
        .then(|| context::make(&Path::new(base).join(below_root(folder)), folder))
        .transpose()?;
    pivot(&root)?;
    Ok(context)
}

fn pivot(root: &OwnedFd) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    let root = fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    syscalls::mount_setattr(root.as_fd(), [RDONLY | NOSUID | NODEV, 0, 0, 0], Depth::Single)
}

/// Mounts the process namespace's own /proc, read-only: nothing in it is a program's to change.
pub(super) fn mount_proc(at: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    Ok(rustix::mount::mount("proc", at, "proc", flags, None)?)
}

fn mount_scratch(at: impl AsRef<Path>, mode: u32, size_bytes: u64) -> io::Result<()> {
    // A file costs memory beyond its bytes; one per 4 KiB of size is what an average small file needs.
    let inodes = (size_bytes / 4096).max(1024);
    let options = format!("mode={mode:o},size={size_bytes},nr_inodes={inodes}\0");
    let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).map_err(io::Error::other)?;
    Ok(rustix::mount::mount(
        "tmpfs",
        at.as_ref(),
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        Some(options),
    )?)
}

/// Top-level links of the host's system directories, such as `/bin -> usr/bin`.
fn system_links() -> Vec<(PathBuf, PathBuf)> {
    SYSTEM
        .iter()
        .filter_map(|path| Some((PathBuf::from(path), std::fs::read_link(path).ok()?)))
        .collect()
}

fn etc_files() -> Vec<(PathBuf, Vec<u8>)> {
    let nologin = "nobody:x:65534:65534:nobody:/:/bin/false\n";
    let mut files: Vec<(PathBuf, Vec<u8>)> = [
        (
            "/etc/passwd",
            format!("sandbox:x:{INSIDE_ID}:{INSIDE_ID}:sandbox:{SCRATCH}:/bin/sh\n{nologin}"),
        ),
        (
            "/etc/group",
            format!("sandbox:x:{INSIDE_ID}:\nnogroup:x:65534:\n"),
        ),
        (
            "/etc/hosts",
            "127.0.0.1 localhost sandbox\n::1 localhost\n".to_owned(),
        ),
        (
            "/etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files\n".to_owned(),
        ),
    ]
    .map(|(path, text)| (PathBuf::from(path), text.into_bytes()))
    .into();
    files.extend(
        ETC.iter()
            .filter_map(|path| Some((PathBuf::from(path), std::fs::read(path).ok()?))),
    );
    files
}

fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// A handle to `path` below `root`, made on the way if missing; links are never followed.
fn point(root: BorrowedFd<'_>, path: &Path, kind: FileType) -> io::Result<OwnedFd> {
    let mut here = fs::openat(root, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let mut components = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let mut next = components.next();
    while let Some(name) = next {
        next = components.next();
        let kind = if next.is_some() { FileType::Directory } else { kind };
        here = step(here.as_fd(), name, kind)?;
    }
    Ok(here)
}

fn step(here: BorrowedFd<'_>, name: &OsStr, kind: FileType) -> io::Result<OwnedFd> {
    let name = Path::new(name);
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let look = || fs::openat2(here, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve);
    match look() {
        Err(Errno::NOENT) => {}
        found => return Ok(found?),
    }
    if kind == FileType::Directory {
        fs::mkdirat(here, name, Mode::from_raw_mode(0o755))?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        fs::openat(here, name, flags, Mode::from_raw_mode(0o644))?;
    }
    Ok(look()?)
}
