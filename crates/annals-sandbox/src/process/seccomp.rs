//! The seccomp filter: system calls that no program inside needs and that have been ways out before fail with EPERM.
//!
//! A list of what is refused, not of what is allowed: programs keep working on newer kernels and libraries, and the
//! other layers hold what this one lets through.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

use super::wire::Refusal;
use crate::spec::Layer;

/// Filters that are ready and bind nobody yet.
pub(super) struct SeccompFilters(Vec<BpfProgram>);

impl SeccompFilters {
    /// Where no cgroup bounds memory, kinds of it that belong to no process are refused as well: they could not be
    /// counted.
    pub(super) fn build(cgroup_bounds_memory: bool) -> Result<Self, Refusal> {
        let refused = |error: seccompiler::BackendError| Refusal {
            layer: Some(Layer::Seccomp),
            reason: error.to_string(),
        };
        let mut denied = denied_calls().map_err(refused)?;
        if !cgroup_bounds_memory {
            denied.insert(libc::SYS_setsockopt, socket_buffers().map_err(refused)?);
            denied.insert(libc::SYS_mmap, vec![shared_memory().map_err(refused)?]);
            let uncounted = uncounted_protocols().map_err(refused)?;
            denied.entry(libc::SYS_socket).or_default().extend(uncounted);
        }
        let denied = program(denied, libc::EPERM).map_err(refused)?;
        // The C library asks for these first and has another way when the kernel seems not to know them.
        let mut unknown = BTreeMap::from([(libc::SYS_clone3, vec![])]);
        if !cgroup_bounds_memory {
            unknown.extend(UNOWNED_MEMORY.map(|call| (call, vec![])));
        }
        let unknown = program(unknown, libc::ENOSYS).map_err(refused)?;
        Ok(Self(vec![foreign_numbers(), unknown, denied]))
    }

    /// Binds this process and all its children, for good.
    pub(super) fn apply(&self) -> io::Result<()> {
        self.0
            .iter()
            .try_for_each(|program| seccompiler::apply_filter(program).map_err(io::Error::other))
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        arch,
    )?
    .try_into()
}

fn denied_calls() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = DENIED.iter().map(|call| (*call, vec![])).collect();
    rules.insert(libc::SYS_clone, new_namespaces()?);
    rules.insert(libc::SYS_socket, vec![foreign_family()?, kernel_service()?]);
    rules.insert(libc::SYS_socketpair, vec![foreign_family()?]);
    rules.insert(libc::SYS_ioctl, vec![terminal(TIOCSTI)?, terminal(TIOCLINUX)?]);
    rules.insert(libc::SYS_personality, vec![odd_personality()?]);
    Ok(rules)
}

type Condition = Result<SeccompRule, seccompiler::BackendError>;

/// `clone` with any flag that makes a namespace: one rule for each, any of them is enough.
fn new_namespaces() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let flags = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    let rule = |flag: libc::c_int| {
        let flag = u64::from(flag as u32);
        let set = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag)?;
        SeccompRule::new(vec![set])
    };
    flags.into_iter().map(rule).collect()
}

/// Any address family but unix, internet and routing: the others reach hardware, the hypervisor or rare kernel code.
fn foreign_family() -> Condition {
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let others = families
        .map(|family| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family as u64));
    SeccompRule::new(others.into_iter().collect::<Result<_, _>>()?)
}

/// Netlink to any part of the kernel but routing, which the C library asks for the machine's addresses.
fn kernel_service() -> Condition {
    let is_netlink = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        libc::AF_NETLINK as u64,
    )?;
    let is_other = SeccompCondition::new(
        2,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Ne,
        libc::NETLINK_ROUTE as u64,
    )?;
    SeccompRule::new(vec![is_netlink, is_other])
}

const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

/// Memory that no process maps: files without a name, and System V objects. Libraries have another way when the
/// kernel seems not to know them.
const UNOWNED_MEMORY: [i64; 5] = [
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
];

/// Making a socket's buffers larger than what a socket is counted with.
fn socket_buffers() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let options = [
        libc::SO_SNDBUF,
        libc::SO_RCVBUF,
        libc::SO_SNDBUFFORCE,
        libc::SO_RCVBUFFORCE,
    ];
    let rule = |option: libc::c_int| {
        let equal = |argument, value: libc::c_int| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value as u64)
        };
        SeccompRule::new(vec![equal(1, libc::SOL_SOCKET)?, equal(2, option)?])
    };
    options.into_iter().map(rule).collect()
}

/// Shared memory without a file: it stays whole while one page of it is mapped, and is counted by the pages that are.
fn shared_memory() -> Condition {
    const MAP_TYPE: libc::c_int = 0x0f;
    let mask = (MAP_TYPE | libc::MAP_ANONYMOUS) as u64;
    let shared = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
    SeccompRule::new(vec![SeccompCondition::new(
        3,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(mask),
        shared,
    )?])
}

/// Internet sockets that stand in none of the tables that are counted: any protocol but TCP, UDP and ICMP.
fn uncounted_protocols() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    const SOCK_TYPE: u64 = 0x0f;
    const SOCK_DCCP: libc::c_int = 6;
    let counted = [
        0,
        libc::IPPROTO_TCP,
        libc::IPPROTO_UDP,
        libc::IPPROTO_ICMP,
        libc::IPPROTO_ICMPV6,
    ];
    let compare = |argument, operator, value: libc::c_int| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value as u64)
    };
    let mut rules = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut other = vec![compare(0, SeccompCmpOp::Eq, family)?];
        for protocol in counted {
            other.push(compare(2, SeccompCmpOp::Ne, protocol)?);
        }
        rules.push(SeccompRule::new(other)?);
        for kind in [libc::SOCK_SEQPACKET, SOCK_DCCP] {
            let is_kind = compare(1, SeccompCmpOp::MaskedEq(SOCK_TYPE), kind)?;
            rules.push(SeccompRule::new(vec![
                compare(0, SeccompCmpOp::Eq, family)?,
                is_kind,
            ])?);
        }
    }
    Ok(rules)
}

/// Typing into, or scrolling, somebody's terminal.
fn terminal(request: u64) -> Condition {
    SeccompRule::new(vec![SeccompCondition::new(
        1,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        request,
    )?])
}

/// Anything but the ordinary one, no randomisation (debuggers), and the question which it is.
fn odd_personality() -> Condition {
    const ADDR_NO_RANDOMIZE: u64 = 0x0004_0000;
    let usual = [0, ADDR_NO_RANDOMIZE, 0xffff_ffff];
    let others =
        usual.map(|usual| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, usual));
    SeccompRule::new(others.into_iter().collect::<Result<_, _>>()?)
}

/// Calls numbered for another calling convention of the same processor (x32): none of ours is known there.
fn foreign_numbers() -> BpfProgram {
    const FIRST_FOREIGN: u32 = 0x4000_0000;
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    vec![
        sock_filter {
            code: LOAD_NUMBER,
            jt: 0,
            jf: 0,
            k: 0,
        },
        sock_filter {
            code: AT_LEAST,
            jt: 0,
            jf: 1,
            k: FIRST_FOREIGN,
        },
        sock_filter {
            code: RETURN,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
        },
        sock_filter {
            code: RETURN,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ALLOW,
        },
    ]
}

/// Refused whatever the arguments.
const DENIED: &[i64] = &[
    // namespaces and mounts
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    // other processes
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // keys, which have no namespace of their own
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // large and often broken parts of the kernel
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
    // files by number instead of by path
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // the machine itself
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
];
