#!/bin/sh
# The first process of the machine. The root that the kernel unpacks cannot be changed by `pivot_root`, which sandboxes do, so
# everything moves to a root of another kind first.
if [ "$1" != moved ]; then
    mkdir /moved
    mount -t tmpfs -o mode=755,size=80% tmpfs /moved
    cp -a /bin /sbin /lib /lib64 /etc /usr /var /test /init /moved/
    mkdir -p /moved/proc /moved/sys /moved/dev /moved/run /moved/root /moved/tmp
    chmod 1777 /moved/tmp
    exec switch_root /moved /init moved
fi
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin RUST_BACKTRACE=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+memory +pids" > /sys/fs/cgroup/cgroup.subtree_control
echo "kernel $(uname -r), cgroup version 2 with: $(cat /sys/fs/cgroup/cgroup.controllers)"
/test --test-threads 1 --exact a_delegated_cgroup_bounds_an_ordinary_user
echo "test ended with $?"
echo o > /proc/sysrq-trigger
sleep 60
