/* Makes files without a name, and gives some of them one in each of the two ways. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void) {
  char path[64];
  for (int i = 0; i < 3; i++) {
    int fd = open(".", O_TMPFILE | O_RDWR, 0640);
    if (fd < 0 || write(fd, path, 50 + i) != 50 + i || fsync(fd)) return 1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (i == 0 && linkat(AT_FDCWD, path, AT_FDCWD, "by-proc", AT_SYMLINK_FOLLOW)) return 2;
    if (i == 1 && linkat(fd, "", AT_FDCWD, "by-descriptor", AT_EMPTY_PATH)) return 3;
    if (i == 1 && chmod(path, 0600)) return 4;
  }
  int gone = open("gone", O_RDWR | O_CREAT, 0600);
  if (unlink("gone") || write(gone, path, 64) != 64 || lseek(gone, 0, SEEK_SET)) return 5;
  return read(gone, path, 64) == 64 ? 0 : 6;
}
