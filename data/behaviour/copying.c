/* Moves data between files and pipes inside the kernel. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

int main(void) {
  static char text[60000];
  memset(text, 't', sizeof text);
  int from = open("from", O_RDWR | O_CREAT, 0644), to = open("to", O_RDWR | O_CREAT, 0644);
  if (write(from, text, sizeof text) != sizeof text) return 1;
  loff_t at = 0;
  if (copy_file_range(from, &at, to, 0, 20000, 0) != 20000) return 2;
  off_t sent = 20000;
  if (sendfile(to, from, &sent, 10000) != 10000) return 3;
  int ends[2];
  if (pipe(ends)) return 4;
  struct iovec part = {text, 60};
  char back[60];
  if (vmsplice(ends[1], &part, 1, 0) != 60 || read(ends[0], back, 60) != 60) return 5;
  part.iov_len = 3000;
  if (vmsplice(ends[1], &part, 1, 0) != 3000) return 6;
  loff_t end = 30000;
  if (splice(ends[0], 0, to, &end, 3000, 0) != 3000) return 7;
  loff_t start = 100;
  if (splice(from, &start, ends[1], 0, 5000, 0) != 5000) return 8;
  int other[2];
  if (pipe(other) || tee(ends[0], other[1], 5000, 0) != 5000) return 9;
  end = 33000;
  if (splice(ends[0], 0, to, &end, 5000, 0) != 5000) return 10;
  static char rest[5000];
  for (int got = 0; got < 5000;) {
    int more = read(other[0], rest, 5000 - got);
    if (more <= 0) return 11;
    got += more;
  }
  return fsync(to) ? 12 : 0;
}
