/* Writes and reads past the page cache, and around its edges. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  void *block;
  if (posix_memalign(&block, 4096, 1 << 16)) return 1;
  memset(block, 'd', 1 << 16);
  int fd = open("direct", O_RDWR | O_CREAT | O_DIRECT, 0644);
  if (fd < 0) return 2;
  for (int i = 0; i < 16; i++)
    if (pwrite(fd, block, 1 << 16, (off_t)i << 16) != 1 << 16) return 3;
  for (int i = 0; i < 64; i++)
    if (pread(fd, block, 4096, (off_t)(i * 37 % 256) << 12) != 4096) return 4;
  /* At the end of the file, and beyond it. */
  if (pread(fd, block, 1 << 16, 1 << 20) != 0) return 5;
  int plain = open("direct", O_RDWR);
  if (pwrite(plain, block, 100, 1 << 20) != 100 || fsync(plain)) return 6;
  if (pread(fd, block, 4096, 1 << 20) != 100) return 7;
  int sync = open("sync", O_WRONLY | O_CREAT | O_DIRECT | O_DSYNC, 0600);
  if (write(sync, block, 8192) != 8192) return 8;
  return ftruncate(sync, 5000) ? 9 : 0;
}
