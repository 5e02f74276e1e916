//! Objects that were read or written here, kept on this machine's disk within a bound.
//!
//! Keys are digests, so what is cached never changes; the first use of a file after a start compares it with its key, and
//! a file that does not match is as if it were not there. Nothing is synced: losing the cache costs a download.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_core::block::BlobDigest;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use object_store::path::Path as ObjectPath;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use sha2::{Digest as _, Sha256};

use crate::BucketError;

/// Where and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The folder, of this store alone.
    pub folder: PathBuf,
    /// What all files together may take; the least recently used go first.
    pub max_bytes: u64,
}

impl Cache {
    /// A cache of ten gigabytes in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        const MAX_BYTES: u64 = 10 << 30;
        Cache {
            folder: folder.into(),
            max_bytes: MAX_BYTES,
        }
    }
}

/// What is there, by name and by last use.
#[derive(Debug, Default)]
struct Index {
    files: HashMap<String, Entry>,
    by_use: BTreeMap<u64, String>,
    uses: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Entry {
    bytes: u64,
    used: u64,
    is_verified: bool,
}

impl Index {
    /// Notes that a file is used; tells whether it was compared with its name already.
    fn touch(&mut self, name: &str) -> Option<bool> {
        self.uses += 1;
        let entry = self.files.get_mut(name)?;
        self.by_use.remove(&entry.used);
        entry.used = self.uses;
        self.by_use.insert(self.uses, name.to_owned());
        Some(entry.is_verified)
    }

    fn insert(&mut self, name: &str, bytes: u64, is_verified: bool) {
        self.remove(name);
        self.uses += 1;
        self.bytes += bytes;
        self.by_use.insert(self.uses, name.to_owned());
        let entry = Entry {
            bytes,
            used: self.uses,
            is_verified,
        };
        self.files.insert(name.to_owned(), entry);
    }

    fn remove(&mut self, name: &str) {
        if let Some(entry) = self.files.remove(name) {
            self.bytes -= entry.bytes;
            self.by_use.remove(&entry.used);
        }
    }

    /// What has to go to stay within a bound, the least recently used first.
    fn evict(&mut self, max_bytes: u64) -> Vec<String> {
        let mut gone = Vec::new();
        while self.bytes > max_bytes
            && let Some((_, name)) = self.by_use.pop_first()
        {
            if let Some(entry) = self.files.remove(&name) {
                self.bytes -= entry.bytes;
            }
            gone.push(name);
        }
        gone
    }
}

/// The files, shared with threads that may block.
#[derive(Debug)]
struct Files {
    cache: Cache,
    index: Mutex<Index>,
}

impl Files {
    fn open(cache: Cache) -> io::Result<Self> {
        fs::create_dir_all(&cache.folder)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&cache.folder)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            match entry.file_name().to_str() {
                Some(name) if name.parse::<BlobDigest>().is_ok() => {
                    found.push((meta.modified()?, name.to_owned(), meta.len()));
                }
                // A draft that a crash left.
                _ => fs::remove_file(entry.path())?,
            }
        }
        found.sort();
        let mut index = Index::default();
        for (_, name, bytes) in found {
            index.insert(&name, bytes, false);
        }
        let files = Files {
            cache,
            index: Mutex::new(index),
        };
        files.shrink();
        Ok(files)
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.cache.folder.join(name)
    }

    /// An open file whose content is what its name says.
    fn get(&self, name: &str) -> Option<File> {
        let is_verified = self.lock().touch(name)?;
        let opened = File::open(self.path(name))
            .ok()
            .filter(|file| is_verified || digest(file).is_ok_and(|actual| actual.to_string() == name));
        let mut index = self.lock();
        match &opened {
            Some(_) => {
                if let Some(entry) = index.files.get_mut(name) {
                    entry.is_verified = true;
                }
            }
            None => {
                index.remove(name);
                drop(index);
                // It may be gone already.
                let _gone = fs::remove_file(self.path(name));
            }
        }
        opened
    }

    /// Keeps bytes that hash to this name. What cannot be kept is read from the bucket again.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 > self.cache.max_bytes || self.lock().files.contains_key(name) {
            return Ok(());
        }
        let mut draft = tempfile::NamedTempFile::with_prefix_in("draft-", &self.cache.folder)?;
        draft.write_all(bytes)?;
        draft.persist(self.path(name))?;
        self.lock().insert(name, bytes.len() as u64, true);
        self.shrink();
        Ok(())
    }

    fn forget(&self, name: &str) {
        self.lock().remove(name);
        // It may never have been there.
        let _gone = fs::remove_file(self.path(name));
    }

    fn shrink(&self) {
        let gone = self.lock().evict(self.cache.max_bytes);
        for name in gone {
            // Readers that have it open go on.
            let _gone = fs::remove_file(self.path(&name));
        }
    }
}

fn digest(mut file: &File) -> io::Result<BlobDigest> {
    const PIECE_BYTES: usize = 256 << 10;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => hash.update(&piece[..read]),
        }
    }
    io::Seek::rewind(&mut file)?;
    Ok(BlobDigest(hash.finalize().into()))
}

/// The cache's name of an object: its digest. Other objects are not cached.
fn name_of(location: &ObjectPath) -> Option<String> {
    let (fan, rest) = location.as_ref().strip_prefix("sha256/")?.split_once('/')?;
    let digest: BlobDigest = format!("sha256:{fan}{rest}").parse().ok()?;
    Some(digest.to_string())
}

/// An object store that reads through a cache.
#[derive(Debug)]
pub(crate) struct Cached<S> {
    objects: Arc<S>,
    files: Arc<Files>,
}

impl<S: ObjectStore> Cached<S> {
    pub(crate) fn open(objects: Arc<S>, cache: Cache) -> std::result::Result<Self, BucketError> {
        let folder = cache.folder.display().to_string();
        let files = Files::open(cache).map_err(|error| BucketError::Cache { folder, error })?;
        Ok(Cached {
            objects,
            files: Arc::new(files),
        })
    }

    /// Runs file work on a thread that may block; a cache that fails is as if it were empty.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let files = Arc::clone(&self.files);
        tokio::task::spawn_blocking(move || work(&files))
            .await
            .ok()
            .flatten()
    }

    async fn keep(&self, name: String, bytes: Bytes) {
        self.blocking(move |files| {
            if let Err(error) = files.put(&name, &bytes) {
                tracing::debug!("`{name}` is not cached: {error}");
            }
            Some(())
        })
        .await;
    }
}

impl<S> fmt::Display for Cached<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cached({})", self.files.cache.folder.display())
    }
}

/// What a cached file answers to a read.
fn answer(location: &ObjectPath, file: File, path: &Path, options: &GetOptions) -> Option<GetResult> {
    let meta = file.metadata().ok()?;
    let size = meta.len();
    let range: Range<u64> = match &options.range {
        None => 0..size,
        Some(range) => range.as_range(size).ok()?,
    };
    Some(GetResult {
        payload: GetResultPayload::File(file, path.to_owned()),
        meta: ObjectMeta {
            location: location.clone(),
            last_modified: meta.modified().ok()?.into(),
            size,
            e_tag: None,
            version: None,
        },
        range,
        attributes: Attributes::new(),
        extensions: Default::default(),
    })
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for Cached<S> {
    async fn put_opts(
        &self,
        location: &ObjectPath,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let bytes = name_of(location).map(|name| (name, Bytes::from(payload.clone())));
        let put = self.objects.put_opts(location, payload, options).await?;
        if let Some((name, bytes)) = bytes {
            self.keep(name, bytes).await;
        }
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &ObjectPath,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &ObjectPath, options: GetOptions) -> Result<GetResult> {
        // Whether an object is there is for the bucket to say.
        let Some(name) = name_of(location).filter(|_| !options.head) else {
            return self.objects.get_opts(location, options).await;
        };
        let (wanted, place, asked) = (name.clone(), location.clone(), options.clone());
        let found = self
            .blocking(move |files| {
                let file = files.get(&wanted)?;
                answer(&place, file, &files.path(&wanted), &asked)
            })
            .await;
        if let Some(found) = found {
            return Ok(found);
        }
        let is_whole = options.range.is_none();
        let mut got = self.objects.get_opts(location, options).await?;
        if !is_whole || got.meta.size > self.files.cache.max_bytes.min(CACHED_MAX_BYTES) {
            return Ok(got);
        }
        let (meta, range) = (got.meta.clone(), got.range.clone());
        let attributes = std::mem::take(&mut got.attributes);
        let bytes = got.bytes().await?;
        if BlobDigest::of(&bytes).to_string() == name {
            self.keep(name, bytes.clone()).await;
        }
        Ok(GetResult {
            payload: GetResultPayload::Stream(futures::stream::iter([Ok(bytes)]).boxed()),
            meta,
            range,
            attributes,
            extensions: Default::default(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<ObjectPath>>,
    ) -> BoxStream<'static, Result<ObjectPath>> {
        let files = Arc::clone(&self.files);
        let deleted = self.objects.delete_stream(locations);
        deleted
            .inspect(move |deleted| {
                if let Some(name) = deleted.as_ref().ok().and_then(name_of) {
                    files.forget(&name);
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

/// A larger object is streamed from the bucket each time: caching it would hold it in memory.
const CACHED_MAX_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;

    use super::*;

    fn key(bytes: &[u8]) -> ObjectPath {
        let hex = BlobDigest::of(bytes).hex();
        ObjectPath::from(format!("sha256/{}/{}", &hex[..2], &hex[2..]))
    }

    fn open(objects: &Arc<InMemory>, folder: &Path, max_bytes: u64) -> Cached<InMemory> {
        let cache = Cache {
            max_bytes,
            ..Cache::new(folder)
        };
        Cached::open(Arc::clone(objects), cache).unwrap()
    }

    async fn read(cached: &Cached<InMemory>, location: &ObjectPath) -> Result<Bytes> {
        cached.get(location).await?.bytes().await
    }

    #[tokio::test]
    async fn what_was_read_once_is_read_without_the_bucket_also_in_part_and_after_a_restart() {
        let (objects, folder) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
        let place = key(b"hello");
        objects
            .put(&place, PutPayload::from_static(b"hello"))
            .await
            .unwrap();
        let cached = open(&objects, folder.path(), 100);
        assert_eq!(read(&cached, &place).await.unwrap(), "hello");
        objects.delete(&place).await.unwrap();
        for cached in [cached, open(&objects, folder.path(), 100)] {
            assert_eq!(read(&cached, &place).await.unwrap(), "hello");
            assert_eq!(cached.get_range(&place, 1..3).await.unwrap(), "el");
            assert!(
                cached.head(&place).await.is_err(),
                "whether it is there is for the bucket to say"
            );
        }
    }

    #[tokio::test]
    async fn a_damaged_file_of_the_cache_is_read_from_the_bucket_again() {
        let (objects, folder) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
        let place = key(b"hello");
        let cached = open(&objects, folder.path(), 100);
        cached
            .put(&place, PutPayload::from_static(b"hello"))
            .await
            .unwrap();
        let file = fs::read_dir(folder.path())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        fs::write(&file, "jello").unwrap();
        let cached = open(&objects, folder.path(), 100);
        assert_eq!(read(&cached, &place).await.unwrap(), "hello");
        assert_eq!(fs::read(&file).unwrap(), b"hello", "and it is healed");
    }

    #[tokio::test]
    async fn the_least_recently_used_goes_when_the_bound_is_met() {
        let (objects, folder) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
        let cached = open(&objects, folder.path(), 10);
        let [a, b, c] = [b"aaaa", b"bbbb", b"cccc"].map(|bytes| (key(bytes), bytes));
        for (place, bytes) in [&a, &b] {
            cached.put(place, PutPayload::from_static(*bytes)).await.unwrap();
        }
        read(&cached, &a.0).await.unwrap();
        cached.put(&c.0, PutPayload::from_static(c.1)).await.unwrap();
        for (place, _) in [&a, &b, &c] {
            objects.delete(place).await.unwrap();
        }
        let there = [
            read(&cached, &a.0).await,
            read(&cached, &b.0).await,
            read(&cached, &c.0).await,
        ];
        assert_eq!(there.map(|found| found.is_ok()), [true, false, true]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[tokio::test]
    async fn what_is_deleted_leaves_the_cache() {
        let (objects, folder) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
        let cached = open(&objects, folder.path(), 100);
        let place = key(b"hello");
        cached
            .put(&place, PutPayload::from_static(b"hello"))
            .await
            .unwrap();
        cached.delete(&place).await.unwrap();
        assert!(read(&cached, &place).await.is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
