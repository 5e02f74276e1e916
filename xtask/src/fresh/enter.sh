# Runs a command in a root folder, as a machine of its own: `enter.sh ROOT TOOLCHAIN USER COMMAND…`.
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
exec setpriv --reuid "$user" --regid "$user" --init-groups --inh-caps=-all env -i HOME="/build/$user" USER="$user" \
    CARGO_HOME="/build/$user/cargo" PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
    LANG=C.UTF-8 CI="${CI:-true}" RUST_BACKTRACE=1 "$@"
