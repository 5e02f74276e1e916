//! A tar archive written as a stream: the one form in which many files travel in one request.

use bytes::Bytes;

const BLOCK_BYTES: usize = 512;
const NAME_MAX_BYTES: usize = 100;

/// What stands before the bytes of a file. Names that do not fit into the header stand in an extended one (pax).
pub(crate) fn header(path: &str, size_bytes: u64, executable: bool) -> Bytes {
    let mode = if executable { 0o755 } else { 0o644 };
    let mut blocks = Vec::new();
    if path.len() > NAME_MAX_BYTES || size_bytes > 0o777_7777_7777 || !path.is_ascii() {
        let records = [pax("path", path), pax("size", &size_bytes.to_string())].concat();
        blocks.extend_from_slice(&block("pax", records.len() as u64, 0o644, b'x'));
        blocks.extend_from_slice(records.as_bytes());
        blocks.resize(blocks.len().next_multiple_of(BLOCK_BYTES), 0);
        blocks.extend_from_slice(&block("file", size_bytes, mode, b'0'));
    } else {
        blocks.extend_from_slice(&block(path, size_bytes, mode, b'0'));
    }
    blocks.into()
}

/// What stands behind the bytes of a file.
pub(crate) fn padding(size_bytes: u64) -> Bytes {
    let over = (size_bytes % BLOCK_BYTES as u64) as usize;
    Bytes::from(vec![0; if over == 0 { 0 } else { BLOCK_BYTES - over }])
}

/// What stands behind all files.
pub(crate) fn end() -> Bytes {
    Bytes::from_static(&[0; 2 * BLOCK_BYTES])
}

/// One record of an extended header, which begins with its own length.
fn pax(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len();
    while length != rest.len() + length.to_string().len() {
        length = rest.len() + length.to_string().len();
    }
    format!("{length}{rest}")
}

fn block(name: &str, size_bytes: u64, mode: u32, kind: u8) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}\0").as_bytes());
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(
        124,
        format!("{:011o}\0", size_bytes.min(0o777_7777_7777)).as_bytes(),
    );
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_system_s_tar_unpacks_it_with_long_and_foreign_names() {
        let folder = tempfile::tempdir().unwrap();
        let long = format!("{}/deep.txt", vec!["folder"; 30].join("/"));
        let files: [(&str, &[u8], bool); 4] = [
            ("plain", b"content", false),
            ("d/run.sh", &[b'x'; 512], true),
            ("größe 😀", b"", false),
            (&long, &[7; 1000], false),
        ];
        let mut archive = Vec::new();
        for (path, bytes, executable) in files {
            archive.extend_from_slice(&header(path, bytes.len() as u64, executable));
            archive.extend_from_slice(bytes);
            archive.extend_from_slice(&padding(bytes.len() as u64));
        }
        archive.extend_from_slice(&end());
        let mut tar = Command::new("tar");
        let tar = tar
            .args(["-xof", "-"])
            .current_dir(folder.path())
            .stdin(Stdio::piped());
        let mut tar = tar.spawn().unwrap();
        tar.stdin.take().unwrap().write_all(&archive).unwrap();
        assert!(tar.wait().unwrap().success());
        for (path, bytes, executable) in files {
            use std::os::unix::fs::PermissionsExt as _;
            let at = folder.path().join(path);
            assert_eq!(std::fs::read(&at).unwrap(), bytes, "{path}");
            let mode = std::fs::metadata(&at).unwrap().permissions().mode();
            assert_eq!(mode & 0o100 != 0, executable, "{path}");
        }
    }
}
