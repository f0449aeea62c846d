# A guest fills, changes and tells file systems of NILFS2. What it tells is compared with what Esker reads of the device.

# mkcp holds a lock there.
mkdir -p /dev/shm

# listing NAME: the tree in /mnt, a line for each name.
listing() {
  echo "LIST $1"
  (cd /mnt && find . | while read -r path; do
    what=$(stat -c '%f|%u|%g|%h|%s|%t:%T|%Y' "$path") sum=-
    if [ -L "$path" ]; then sum=$(readlink "$path")
    elif [ -f "$path" ] && [ "$(stat -c %s "$path")" -lt 50000000 ]; then
      sum=$(gzip -1 <"$path" | tail -c 8 | hexdump -e '4/1 "%02x"' -n 4)
    fi
    echo "ROW $path|$what|$sum"
  done)
  echo "END $1"
}

# fill BLOCK BYTES: files of all kinds, with blocks of so many bytes, the largest of BYTES.
fill() {
  cd /mnt || return
  echo hello >small; : >empty
  for n in 1 5 6 7 8; do yes "file of $n blocks" | head -c $((n * $1)) >blocks$n; done
  yes 0123456789abcdef | head -c "$2" >big
  echo begin >sparse
  for at in 100 20000; do dd if=small of=sparse bs="$1" seek=$at conv=notrunc 2>/dev/null; done
  dd if=small of=far bs="$1" seek=3000000000 2>/dev/null
  mkdir -p many a/b/c/d; i=0
  while [ $i -lt 100 ]; do echo $i >many/a-rather-long-name-for-a-file-number-$i; i=$((i + 1)); done
  ln -s small short; ln -s /a/rather/long/target/of/a/symbolic/link/that/does/not/lead/anywhere/at/all long
  ln small a/hard; ln small a/b/harder
  mknod char c 5 1; mknod block b 259 70000; mkfifo pipe
  chmod 4755 blocks1; chown 1234:70000 blocks5; chmod 1777 a; chmod 2750 a/b
  exec 3>gone; yes gone | head -c 50000 >&3; rm gone; sync; exec 3>&-
  sync; cd /
}

# change BLOCK: changes what fill has made.
change() {
  cd /mnt || return
  truncate -s 100001 big; echo more >>small; rm -r many/*1*; rm blocks7 far
  mv a/b/c moved; mv blocks8 blocks9; yes new | head -c 5000 >new
  dd if=small of=sparse bs="$1" seek=15000 conv=notrunc 2>/dev/null
  ln new a/newer; rm short; mkdir many/dir; echo x >many/dir/x
  sync; cd /
}

# tables NAME: what the tools of the kernel tell of the file system in /mnt.
tables() { echo "LSSU $1"; /bin/lssu -a; echo "LSCP $1"; /bin/lscp -a; echo "OVER $1"; }

# cleaner DEVICE: makes waste. Then Linux's cleaner works until a quarter of the segments that were dirty is clean.
cleaner() {
  cat >/etc/cleaner.conf <<'END'
protection_period 0
min_clean_segments 100%
max_clean_segments 100%
clean_check_interval 1
nsegments_per_clean 8
mc_nsegments_per_clean 8
cleaning_interval 0.1
mc_cleaning_interval 0.1
retry_interval 1
min_reclaimable_blocks 1
mc_min_reclaimable_blocks 1
use_set_suinfo
END
  for round in 1 2 3 4 5 6; do yes $round | head -c 2000000 >/mnt/waste; sync; done
  local before=$(/bin/lssu "$1" | wc -l) try=0
  /bin/nilfs_cleanerd -n -c /etc/cleaner.conf "$1" /mnt &
  while [ $try -lt 100 ] && [ $(($(/bin/lssu "$1" | wc -l) * 4)) -gt $((before * 3)) ]; do sleep 0.1; try=$((try + 1)); done
  while pidof nilfs_cleanerd >/dev/null; do killall nilfs_cleanerd; sleep 0.1; done
  echo "NOTE $before, then $(/bin/lssu "$1" | wc -l)"
  [ $try -lt 100 ]
}

# use NAME DEVICE BLOCK BYTES CLEANER: all of it, a snapshot between, and behind it a cleaner that is given the device.
use() {
  step "$1-mount" mount -t nilfs2 "$2" /mnt || return
  fill "$3" "$4"
  listing "$1-snapshot"
  step "$1-snapshot" /bin/mkcp -s "$2"
  change "$3"
  step "$1-clean" $5 "$2"
  listing "$1-latest"
  step "$1-umount" umount /mnt
  step "$1-again" mount -t nilfs2 -o ro "$2" /mnt
  tables "$1"
  step "$1-end" umount /mnt
}
