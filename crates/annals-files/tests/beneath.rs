//! Trees that somebody hostile has prepared.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use annals_files::{Draft, Errno, Links, OpenError, ReadError, Root, Walk, read_at_most};

/// An identity that is nobody's.
const ORDINARY: u32 = 65533;

fn tree() -> (tempfile::TempDir, Root) {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("root");
    fs::create_dir_all(inside.join("folder")).unwrap();
    fs::write(directory.path().join("outside"), "secret").unwrap();
    fs::write(inside.join("folder/file"), "content").unwrap();
    symlink("folder/file", inside.join("link")).unwrap();
    symlink("../outside", inside.join("out")).unwrap();
    symlink("..", inside.join("up")).unwrap();
    symlink("/etc", inside.join("absolute")).unwrap();
    symlink("loop", inside.join("loop")).unwrap();
    let root = Root::open(&inside).unwrap();
    (directory, root)
}

#[test]
fn links_are_followed_inside_only_or_never() {
    let (_directory, root) = tree();
    let open = |path: &str, links| root.open_file(Path::new(path), links).map(drop);
    assert_eq!(open("link", Links::Inside), Ok(()));
    assert_eq!(open("link", Links::Never), Err(OpenError::Os(Errno::LOOP)));
    for path in [
        "out",
        "up/outside",
        "absolute/passwd",
        "../outside",
        "/etc/passwd",
    ] {
        assert_eq!(
            open(path, Links::Inside),
            Err(OpenError::Os(Errno::XDEV)),
            "{path}"
        );
        assert!(open(path, Links::Never).is_err(), "{path}");
    }
    assert_eq!(open("loop", Links::Inside), Err(OpenError::Os(Errno::LOOP)));
    assert_eq!(open("folder", Links::Inside), Err(OpenError::Directory));
}

#[test]
fn special_files_are_refused_without_waiting_for_them() {
    let (directory, root) = tree();
    let pipe = directory.path().join("root/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(
        root.open_file(Path::new("pipe"), Links::Inside).map(drop),
        Err(OpenError::Special)
    );
}

#[test]
fn no_more_is_read_than_was_asked_for() {
    let (directory, root) = tree();
    let sparse = fs::File::create(directory.path().join("root/sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let (mut file, _) = root.open_file(Path::new("sparse"), Links::Never).unwrap();
    assert!(matches!(
        read_at_most(&mut file, 1 << 20),
        Err(ReadError::TooLarge)
    ));
    // A file whose size says nothing is read to the bound.
    let mut endless = fs::File::open("/dev/zero").unwrap();
    assert!(matches!(
        read_at_most(&mut endless, 1000),
        Err(ReadError::TooLarge)
    ));
    let (mut file, _) = root.open_file(Path::new("folder/file"), Links::Never).unwrap();
    assert_eq!(read_at_most(&mut file, 7).unwrap(), b"content");
}

#[test]
fn a_draft_appears_whole_or_not_at_all_and_never_through_a_link() {
    use std::io::Write as _;

    let (directory, root) = tree();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(directory.path().join("root"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let before = names();
    let mut draft = Draft::new(&root, Path::new("new"), 0o644, Links::Never).unwrap();
    draft.file.write_all(b"half").unwrap();
    drop(draft);
    assert_eq!(names(), before);
    for path in ["up/x", "absolute/x", "link/x"] {
        assert!(
            Draft::new(&root, Path::new(path), 0o644, Links::Never).is_err(),
            "{path}"
        );
    }
    assert_eq!(
        Draft::new(&root, Path::new("folder"), 0o644, Links::Never).map(drop),
        Err(Errno::ISDIR)
    );
    let draft = Draft::new(&root, Path::new("a/b/new"), 0o755, Links::Never).unwrap();
    draft.publish().unwrap();
    let mode = fs::metadata(directory.path().join("root/a/b/new"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    // A link that stands in the place is replaced, not followed.
    Draft::new(&root, Path::new("out"), 0o644, Links::Never)
        .unwrap()
        .publish()
        .unwrap();
    assert_eq!(
        fs::read_to_string(directory.path().join("outside")).unwrap(),
        "secret"
    );
}

/// Root reads every folder, so this runs once more as somebody who does not.
#[test]
fn a_folder_that_cannot_be_read_is_stepped_over() {
    if rustix::process::geteuid().is_root() {
        let output = Command::new("/proc/self/exe")
            .args(["--exact", "a_folder_that_cannot_be_read_is_stepped_over"])
            .current_dir("/")
            .env_clear()
            .uid(ORDINARY)
            .gid(ORDINARY)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let (directory, root) = tree();
    let locked = directory.path().join("root/locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let mut walk = Walk::new(&root);
    let files: Vec<_> = walk
        .by_ref()
        .filter(|entry| entry.is_file())
        .map(|entry| entry.path)
        .collect();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(files, [Path::new("folder/file")]);
    assert_eq!(walk.unreadable, 1);
}
