#!/bin/bash
# The first process of a node's namespaces (build/cluster/node.ts): makes a file system and cgroups of the node's own, then waits.
# Arguments: NAME, DATA (folder of the node's files), GROUP (cgroup of the cluster). Says `ready` when all is made.
set -eu
name=$1 data=$2 group=$3
hostname "$name"
mount --make-rprivate /

# /sys of this network namespace, with the machine's cgroups.
mkdir -p "$data/cgroup"
mount --rbind /sys/fs/cgroup "$data/cgroup"
mount -t sysfs sysfs /sys
mount --move "$data/cgroup" /sys/fs/cgroup

# kubelet writes sysctls of the whole machine unless it finds them as it wants them.
mkdir -p "$data/sysctl"
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
  file=$data/sysctl/$(basename "${setting%=*}")
  echo "${setting#*=}" > "$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done

# A node writes to its folder alone: nothing is left on the machine.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock
for folder in /var/lib /var/log /opt; do
  mkdir -p "$data$folder"
  mount --bind "$data$folder" "$folder"
done
mkdir -p /var/log/pods /var/log/containers
printf '127.0.0.1 localhost\n::1 localhost\n' > "$data/hosts"
mount --bind "$data/hosts" /etc/hosts
mount --make-rshared /

# A cgroup gets as much of busy processors as one process beside it: all pods of the cluster together get as much as eight.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  # cgroup v2: children get the controllers that their parent passes on.
  for parent in "" "/$group"; do
    mkdir -p "/sys/fs/cgroup/$group/$name"
    sed 's/\</+/g' "/sys/fs/cgroup$parent/cgroup.controllers" > "/sys/fs/cgroup$parent/cgroup.subtree_control"
  done
  echo 800 > "/sys/fs/cgroup/$group/cpu.weight"
else
  for controller in cpu cpuacct cpuset memory devices freezer blkio pids systemd; do
    mkdir -p "/sys/fs/cgroup/$controller/$group/$name"
  done
  echo 8192 > "/sys/fs/cgroup/cpu/$group/cpu.shares"
  # A new cpuset has no processors, and takes no process before it has.
  for below in "$group" "$group/$name"; do
    for file in cpuset.cpus cpuset.mems; do
      cat "/sys/fs/cgroup/cpuset/$file" > "/sys/fs/cgroup/cpuset/$below/$file"
    done
  done
fi
echo ready
exec sleep infinity
