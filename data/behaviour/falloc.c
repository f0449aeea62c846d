/* Allocates room, punches holes, and zeroes ranges. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  static char block[1 << 16];
  memset(block, 'f', sizeof block);
  int fd = open("room", O_RDWR | O_CREAT, 0644);
  if (fallocate(fd, 0, 0, 1 << 20)) return 1;
  if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 1 << 20, 1 << 20)) return 2;
  for (int i = 0; i < 16; i++)
    if (pwrite(fd, block, sizeof block, (off_t)i << 16) < 0) return 3;
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 18, 1 << 17)) return 4;
  if (fallocate(fd, FALLOC_FL_ZERO_RANGE, 3 << 18, 1 << 16)) return 5;
  if (lseek(fd, 0, SEEK_HOLE) < 0 || fsync(fd)) return 6;
  if (posix_fallocate(open("more", O_RDWR | O_CREAT, 0600), 1000, 2000)) return 7;
  return ftruncate(fd, (1 << 20) + 12345) ? 8 : 0;
}
