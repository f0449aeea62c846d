#!/bin/busybox sh
# The first process of a guest: brings the machine up, runs the job, and switches it off.
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin LD_LIBRARY_PATH=/lib
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
# mkfs.nilfs2 asks it whether the device is mounted.
ln -s /proc/mounts /etc/mtab
echo "KERNEL $(uname -r)"
while read -r module; do
  insmod "/modules/$module.ko" || echo "RESULT module-$module FAIL cannot be loaded"
done </modules/order
ip link set lo up
ip link set eth0 up 2>/dev/null && ip addr add 10.0.2.15/24 dev eth0
. /lib.sh
. /job.sh
sync
echo DONE
poweroff -f
