//! A file layer under SQLite that remembers every write and sync, and can fail on demand.
//!
//! All calls go through to the real files. From the record, [`Record::image`] builds what a disk would hold had
//! power been lost at any moment: synced bytes for sure, unsynced ones in any mixture, torn at sectors.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};

use rusqlite::ffi;

/// The name under which SQLite knows the layer.
pub(crate) const NAME: &str = "broken-disk";

const SECTOR_BYTES: usize = 512;

/// One thing that happened below SQLite, or beside it.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Write {
        file: String,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: String,
        size: usize,
    },
    Sync {
        file: String,
    },
    Delete {
        file: String,
        durably: bool,
    },
    /// The names in the folder reached the disk.
    SyncFolder {
        folder: String,
    },
    /// A sync failed: what was not synced before counts as written, and no later sync writes it.
    FailedSync {
        file: String,
    },
    /// The test was told that block `seq` of this conversation is durable.
    Acknowledged {
        conversation: String,
        seq: u64,
    },
}

/// How the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Writes find no room.
    Full,
    /// Nothing can be written.
    ReadOnly,
    /// Syncs fail.
    Sync,
}

#[derive(Default)]
struct Layer {
    ops: Vec<Op>,
    faults: HashMap<String, Fault>,
}

fn layer() -> MutexGuard<'static, Layer> {
    static LAYER: LazyLock<Mutex<Layer>> = LazyLock::new(Mutex::default);
    LAYER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes every file below `folder` fail so, or no more.
pub(crate) fn set_fault(folder: &Path, fault: Option<Fault>) {
    let key = folder.display().to_string();
    match fault {
        Some(fault) => layer().faults.insert(key, fault),
        None => layer().faults.remove(&key),
    };
}

fn fault_of(file: &str) -> Option<Fault> {
    let layer = layer();
    layer
        .faults
        .iter()
        .find(|(folder, _)| file.starts_with(folder.as_str()))
        .map(|(_, fault)| *fault)
}

/// Notes that a test was told of a durable block.
pub(crate) fn acknowledge(conversation: &str, seq: u64) {
    layer().ops.push(Op::Acknowledged {
        conversation: conversation.to_owned(),
        seq,
    });
}

/// Notes that the log has synced its folder.
pub(crate) fn folder_synced(folder: &Path) {
    layer().ops.push(Op::SyncFolder {
        folder: folder.display().to_string(),
    });
}

/// Everything that happened to files below `folder`, with the acknowledgements between.
pub(crate) fn record(folder: &Path) -> Record {
    let folder = folder.display().to_string();
    let below = |op: &&Op| match op {
        Op::Write { file, .. } | Op::Truncate { file, .. } | Op::Sync { file } | Op::Delete { file, .. } => {
            file.starts_with(&folder)
        }
        Op::FailedSync { file } => file.starts_with(&folder),
        Op::SyncFolder { folder: synced } => *synced == folder,
        Op::Acknowledged { .. } => true,
    };
    Record {
        ops: layer().ops.iter().filter(below).cloned().collect(),
    }
}

/// What happened, in order.
pub(crate) struct Record {
    pub(crate) ops: Vec<Op>,
}

/// A disk after power was lost.
pub(crate) struct Image {
    /// File names without folder.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Per conversation, the last block that was acknowledged before.
    pub(crate) acknowledged: BTreeMap<String, u64>,
}

/// What one name stands for.
#[derive(Default)]
struct FileState {
    /// Whether the name exists, and whether the disk knows that.
    exists: bool,
    is_name_durable: bool,
    /// The synced bytes of a file that had the name before and whose removal the disk does not know of.
    ghost: Option<Vec<u8>>,
    /// Bytes that were synced, and what came after.
    durable: Vec<u8>,
    pending: Vec<Op>,
}

impl FileState {
    fn change(&mut self, op: &Op) {
        self.exists = true;
        self.pending.push(op.clone());
    }

    fn sync(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        pending.iter().for_each(|op| apply(&mut self.durable, op));
    }

    fn delete(&mut self) {
        let ghost = self.is_name_durable.then(|| std::mem::take(&mut self.durable));
        *self = FileState {
            ghost: ghost.or(self.ghost.take()),
            ..FileState::default()
        };
    }

    fn sync_name(&mut self) {
        (self.ghost, self.is_name_durable) = (None, self.exists);
    }

    /// What the name stands for after power was lost.
    fn survive(self, coin: &mut dyn FnMut(u64) -> u64) -> Option<Vec<u8>> {
        let keeps_the_new = self.is_name_durable || coin(2) == 0;
        if !keeps_the_new {
            return self.ghost;
        }
        let mut bytes = self.durable;
        for op in self.pending {
            match coin(3) {
                0 => {}
                1 => apply(&mut bytes, &op),
                _ => apply(&mut bytes, &torn(op, coin)),
            }
        }
        self.exists.then_some(bytes)
    }
}

/// Whether syncs mean anything.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syncs {
    Honoured,
    /// A disk that lies: to see that the test would notice.
    Ignored,
}

impl Record {
    /// The disk as it may be if power is lost after `count` operations; `coin` decides what unsynced bytes do.
    pub(crate) fn image(&self, count: usize, syncs: Syncs, coin: &mut dyn FnMut(u64) -> u64) -> Image {
        let mut files: BTreeMap<String, FileState> = BTreeMap::new();
        let mut acknowledged = BTreeMap::new();
        for op in &self.ops[..count] {
            match op {
                Op::Acknowledged { conversation, seq } => {
                    acknowledged.insert(conversation.clone(), *seq);
                }
                Op::Sync { .. } | Op::SyncFolder { .. } if syncs == Syncs::Ignored => {}
                Op::Sync { file } => {
                    let state = files.entry(file.clone()).or_default();
                    state.sync();
                    // SQLite syncs the folder with the first sync of a new journal or write-ahead log.
                    if !state.is_name_durable && (file.ends_with("-journal") || file.ends_with("-wal")) {
                        files.values_mut().for_each(FileState::sync_name);
                    }
                }
                Op::FailedSync { file } => files.entry(file.clone()).or_default().pending.clear(),
                Op::SyncFolder { .. } => files.values_mut().for_each(FileState::sync_name),
                Op::Delete { file, durably } => {
                    files.entry(file.clone()).or_default().delete();
                    if *durably {
                        files.values_mut().for_each(FileState::sync_name);
                    }
                }
                Op::Write { file, .. } | Op::Truncate { file, .. } => {
                    files.entry(file.clone()).or_default().change(op);
                }
            }
        }
        let mut image = BTreeMap::new();
        for (file, state) in files {
            if let Some(bytes) = state.survive(coin) {
                let name = Path::new(&file).file_name().unwrap().to_str().unwrap().to_owned();
                image.insert(name, bytes);
            }
        }
        Image {
            files: image,
            acknowledged,
        }
    }
}

fn torn(op: Op, coin: &mut dyn FnMut(u64) -> u64) -> Op {
    match op {
        Op::Write {
            file,
            offset,
            mut bytes,
        } => {
            let sectors = bytes.len().div_ceil(SECTOR_BYTES) as u64;
            bytes.truncate(coin(sectors + 1) as usize * SECTOR_BYTES);
            Op::Write { file, offset, bytes }
        }
        whole => whole,
    }
}

fn apply(content: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Write { offset, bytes, .. } => {
            let end = offset + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*offset..end].copy_from_slice(bytes);
        }
        Op::Truncate { size, .. } => content.truncate(*size),
        Op::Sync { .. }
        | Op::FailedSync { .. }
        | Op::SyncFolder { .. }
        | Op::Delete { .. }
        | Op::Acknowledged { .. } => {}
    }
}

/// A file of ours: SQLite's header, then the name, then the real file in the bytes behind it.
#[repr(C)]
struct ShimFile {
    base: ffi::sqlite3_file,
    name: *mut String,
}

fn real_vfs() -> *mut ffi::sqlite3_vfs {
    // SAFETY: the layer for Unix is built in under this name.
    unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) }
}

/// Registers the layer, once in the life of the process.
pub(crate) fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the copied functions of the real layer ignore which layer they are called through, except those
        // that are replaced; the structure lives for ever.
        unsafe {
            let mut vfs = *real_vfs();
            vfs.zName = c"broken-disk".as_ptr();
            vfs.pNext = std::ptr::null_mut();
            vfs.szOsFile += size_of::<ShimFile>() as c_int;
            vfs.xOpen = Some(open);
            vfs.xDelete = Some(delete);
            let code = ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0);
            assert_eq!(code, ffi::SQLITE_OK);
        }
    });
}

unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: SQLite allocated `szOsFile` bytes: ours, then those of the real file.
    unsafe { file.cast::<ShimFile>().add(1).cast() }
}

unsafe fn name_of<'n>(file: *mut ffi::sqlite3_file) -> &'n String {
    // SAFETY: set by `open`, freed by `close`.
    unsafe { &*(*file.cast::<ShimFile>()).name }
}

/// Calls the real file's method.
macro_rules! pass {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let real = real($file);
        ((*(*real).pMethods).$method.unwrap())(real $(, $argument)*)
    }};
}

unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: called by SQLite with a file of our size and a name that is null or a C string.
    unsafe {
        (*file).pMethods = std::ptr::null();
        let text = match name.is_null() {
            true => String::new(),
            false => CStr::from_ptr(name).to_string_lossy().into_owned(),
        };
        let code = ((*real_vfs()).xOpen.unwrap())(real_vfs(), name, real(file), flags, out);
        if code == ffi::SQLITE_OK {
            (*file.cast::<ShimFile>()).name = Box::into_raw(Box::new(text));
            (*file).pMethods = &METHODS;
        }
        code
    }
}

unsafe extern "C" fn delete(_vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: called by SQLite with a C string.
    unsafe {
        let file = CStr::from_ptr(name).to_string_lossy().into_owned();
        let code = ((*real_vfs()).xDelete.unwrap())(real_vfs(), name, sync_folder);
        if code == ffi::SQLITE_OK {
            layer().ops.push(Op::Delete {
                file,
                durably: sync_folder != 0,
            });
        }
        code
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the file was opened by `open` and is closed once.
    unsafe {
        let code = pass!(file, xClose);
        drop(Box::from_raw((*file.cast::<ShimFile>()).name));
        code
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite gives `amount` bytes at `data`.
    unsafe {
        let name = name_of(file);
        match fault_of(name) {
            Some(Fault::Full) => return ffi::SQLITE_FULL,
            Some(Fault::ReadOnly) => return ffi::SQLITE_READONLY,
            Some(Fault::Sync) | None => {}
        }
        let code = pass!(file, xWrite, data, amount, offset);
        if code == ffi::SQLITE_OK {
            let bytes = std::slice::from_raw_parts(data.cast::<u8>(), amount as usize).to_vec();
            layer().ops.push(Op::Write {
                file: name.clone(),
                offset: offset as usize,
                bytes,
            });
        }
        code
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: an open file of ours.
    unsafe {
        let code = pass!(file, xTruncate, size);
        layer().ops.push(Op::Truncate {
            file: name_of(file).clone(),
            size: size as usize,
        });
        code
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: an open file of ours.
    unsafe {
        if fault_of(name_of(file)) == Some(Fault::Sync) {
            layer().ops.push(Op::FailedSync {
                file: name_of(file).clone(),
            });
            return ffi::SQLITE_IOERR_FSYNC;
        }
        let code = pass!(file, xSync, flags);
        if code == ffi::SQLITE_OK {
            layer().ops.push(Op::Sync {
                file: name_of(file).clone(),
            });
        }
        code
    }
}

/// Methods that go straight through.
macro_rules! through {
    ($($name:ident = $method:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $argument: $kind)*) -> $result {
            // SAFETY: an open file of ours; the arguments are SQLite's own.
            unsafe { pass!(file, $method $(, $argument)*) }
        }
    )*};
}

through! {
    read = xRead(data: *mut c_void, amount: c_int, offset: i64) -> c_int;
    file_size = xFileSize(size: *mut i64) -> c_int;
    lock = xLock(level: c_int) -> c_int;
    unlock = xUnlock(level: c_int) -> c_int;
    check_reserved = xCheckReservedLock(out: *mut c_int) -> c_int;
    control = xFileControl(op: c_int, argument: *mut c_void) -> c_int;
    sector_size = xSectorSize() -> c_int;
    device = xDeviceCharacteristics() -> c_int;
    shm_map = xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int;
    shm_lock = xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int;
    shm_barrier = xShmBarrier() -> ();
    shm_unmap = xShmUnmap(delete: c_int) -> c_int;
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
