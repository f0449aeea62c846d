# What jobs are made of. Programs have their folder: busybox prefers its own of the same name. Each step prints one line: RESULT NAME ok|FAIL [SECONDS or reason].

now() { cut -d' ' -f1 /proc/uptime; }

# step NAME COMMAND...: the command's output is shown if it fails.
step() {
  local name=$1 start=$(now)
  shift
  "$@" >/tmp/step.out 2>&1
  local status=$?
  if [ $status -eq 0 ]; then
    echo "RESULT $name ok $(echo "$(now) $start" | awk '{ printf "%.1f", $1 - $2 }') $(grep '^NOTE ' /tmp/step.out | tail -n 1 | cut -c6-)"
  else
    echo "RESULT $name FAIL status $status: $(tail -n 1 /tmp/step.out)"
    tail -n 12 /tmp/step.out | sed 's/^/OUTPUT /'
  fi
  return $status
}

# A step that must fail.
refused() { ! "$@"; }

# equal EXPECTED FILE: for values in /sys.
equal() { local found=$(cat "$2"); echo "NOTE $found"; [ "$found" = "$1" ] || { echo "$2 is $found, not $1"; return 1; }; }

cold() { sync; echo 3 >/proc/sys/vm/drop_caches; }

make() {
  case $1 in
    ext4) /bin/mke2fs -q -F -t ext4 "$2" ;;
    xfs) /bin/mkfs.xfs -q -f "$2" ;;
    nilfs2) /bin/mkfs.nilfs2 -q -f "$2" ;;
    f2fs) /bin/mkfs.f2fs -q -f "$2" ;;
    btrfs) /bin/mkfs.btrfs -q -f "$2" ;;
  esac
}

# Changes nothing. NILFS2 has no checker: its recovery is a mount, and its checkpoints are listed.
check() {
  case $1 in
    ext4) /bin/e2fsck -f -n "$2" ;;
    xfs) /bin/xfs_repair -n "$2" ;;
    nilfs2) attach nilfs2 "$2" && /bin/lscp "$2" && umount /mnt ;;
    f2fs) /bin/fsck.f2fs --dry-run "$2" ;;
    btrfs) /bin/btrfs check --readonly "$2" ;;
  esac
}

attach() { mount -t "$1" -o noatime "$2" /mnt; }

# watch DISK FILE: a line each tenth of a second, of what the disk has completed and what is in flight; in the background.
watch() {
  while sleep 0.1; do awk '{ print $1, $5, $11, $15, $9 }' "/sys/block/$1/stat"; done >"$2" &
  WATCH=$!
}

# stuck FILE: for at least half a second nothing was completed while something was in flight. Ends the watch.
stuck() {
  kill $WATCH
  awk '{ same = ($0 == last && $NF > 0) ? same + 1 : 0; last = $0; if (same > most) { most = same; flight = $NF } }
    END { print "NOTE " flight + 0 " in flight"; exit most < 5 }' "$1"
}

# filesystem PREFIX TYPE DEVICE STEPS: made, mounted, loaded, remounted, verified, trimmed, verified, checked.
filesystem() {
  local prefix=$1-$2 type=$2 device=$3 steps=$4
  step "$prefix-mkfs" make "$type" "$device" || return
  step "$prefix-mount" attach "$type" "$device" || return
  step "$prefix-load" it load tree-write /mnt/a --seed 1 --steps "$steps"
  step "$prefix-sync" sync
  step "$prefix-umount" umount /mnt
  cold
  step "$prefix-remount" attach "$type" "$device"
  step "$prefix-verify" it load tree-verify /mnt/a --seed 1 --steps "$steps"
  step "$prefix-load2" it load tree-write /mnt/b --seed 2 --steps "$steps"
  rm -r /mnt/b
  sync
  step "$prefix-trim" fstrim -v /mnt
  cold
  step "$prefix-verify2" it load tree-verify /mnt/a --seed 1 --steps "$steps"
  step "$prefix-umount2" umount /mnt
  step "$prefix-check" check "$type" "$device"
}

# raw PREFIX DEVICE MIB WRITES: blocks written at random, read back cold; then discarded and zeroed.
raw() {
  local prefix=$1-raw device=$2 bytes=$(($3 << 20)) writes=$4
  step "$prefix-write" it load raw-write "$device" --seed 3 --bytes $bytes --writes "$writes"
  cold
  step "$prefix-verify" it load raw-verify "$device" --seed 3 --bytes $bytes --writes "$writes"
  step "$prefix-discard" /bin/blkdiscard "$device"
  step "$prefix-zero" /bin/blkdiscard -z -l $bytes "$device"
  cold
  step "$prefix-zeroes" it load raw-zero "$device" --bytes $bytes
}
