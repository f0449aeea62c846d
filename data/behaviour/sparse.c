/* Makes sparse files, also a huge one, and looks for their data. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

int main(void) {
  int huge = open("huge", O_RDWR | O_CREAT, 0644);
  if (ftruncate(huge, 256LL << 30) || pwrite(huge, "end", 3, (256LL << 30) - 3) != 3) return 1;
  if (pwrite(huge, "middle", 6, 128LL << 30) != 6) return 2;
  int sparse = open("sparse", O_RDWR);
  if (sparse < 0 || lseek(sparse, 0, SEEK_END) != 64 << 20) return 3;
  if (pwrite(sparse, "x", 1, 32 << 20) != 1) return 4;
  if (fsync(huge)) return 5;
  int grown = open("grown", O_RDWR | O_CREAT, 0644);
  return lseek(grown, 1 << 20, SEEK_SET) < 0 || write(grown, "g", 1) != 1;
}
