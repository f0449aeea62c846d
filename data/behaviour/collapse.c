/* Takes ranges out of a file and puts others in, which some file systems refuse. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  static char block[1 << 18];
  memset(block, 'c', sizeof block);
  int fd = open("ranges", O_RDWR | O_CREAT, 0644);
  if (write(fd, block, sizeof block) < 0 || fsync(fd)) return 1;
  fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 1 << 16, 1 << 16);
  fallocate(fd, FALLOC_FL_INSERT_RANGE, 1 << 16, 1 << 17);
  return ftruncate(fd, 1 << 18) ? 2 : 0;
}
