//! What a large attachment costs this process. It is alone in its program, because it measures its own process.

mod common;

annals_sandbox::helpers_in_tests!(annals_content::init);

use annals_runtime::{Attachment, TurnRequest};
use common::Bench;
use serde_json::json;

fn peak_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Checked, kept, put into OUT_DIR: whatever happens to it, this process holds a piece of it at a time.
#[tokio::test]
async fn a_large_attachment_is_never_held_whole() {
    const SIZE_BYTES: usize = 44 << 20;
    let bench = Bench::new();
    let agent = bench.agent(json!([{"text": "One."}, {"text": "Two."}])).await;
    let session = agent.session("c").await.unwrap();
    let small = TurnRequest::new("Go").attach(Attachment::new("a.bin", [0, 159, 146, 150]));
    let session = agent.run(session, small).await.unwrap().into_session();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.bin");
    // No text, and nothing that a file system or a packer would make small.
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..1 << 20)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let mut file = std::fs::File::create(&path).unwrap();
    for _ in 0..SIZE_BYTES / noise.len() {
        std::io::Write::write_all(&mut file, &noise).unwrap();
    }
    drop(file);
    let before = peak_memory_bytes();
    let attachment = Attachment::from_file(&path).unwrap();
    agent
        .check_attachments(std::slice::from_ref(&attachment))
        .await
        .unwrap();
    let request = TurnRequest::new("Look").attach(attachment);
    let turn = agent.run(session, request).await.unwrap();
    let grown = peak_memory_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "grew by {} MB", grown >> 20);
    let digest = annals_store::hash_file(&mut std::fs::File::open(&path).unwrap())
        .unwrap()
        .digest;
    let session = turn.into_session();
    let blocks = session.timeline(|timeline| timeline.blocks().to_vec());
    let kept = blocks
        .iter()
        .filter_map(|block| block.meta().file.as_ref())
        .any(|file| file.content_digest == Some(digest) && file.size_bytes == Some(SIZE_BYTES as u64));
    assert!(kept);
}
