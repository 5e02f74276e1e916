# Runs a command in a root folder, as a machine of its own: `enter.sh ROOT TOOLCHAIN USER COMMAND…`.
# The environment is the caller's.
# Expects to be alone in its mount and process namespaces, so that everything it mounts ends with it. The root is changed
# by `pivot_root`, since the kernel allows no user namespaces below a `chroot`, and the sandbox makes them.
set -eu
root=$1 toolchain=$2 user=$3
shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount --bind "$toolchain" "$root/opt/rust"
mount -o remount,bind,ro "$root/opt/rust"
mkdir -p "$root/opt/host"
cd "$root"
pivot_root . opt/host
umount -l /opt/host
cd "/build/$user/annals"
exec setpriv --reuid "$user" --regid "$user" --init-groups --inh-caps=-all "$@"
