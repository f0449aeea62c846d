/* Writes and reads files through maps. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void) {
  int fd = open("mapped", O_RDWR | O_CREAT, 0644);
  if (ftruncate(fd, 1 << 20)) return 1;
  char *at = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return 2;
  for (int i = 0; i < 256; i += 3) memset(at + (i << 12), i, 100);
  if (msync(at, 1 << 20, MS_SYNC) || munmap(at, 1 << 20)) return 3;
  char *copy = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  int sum = 0;
  for (int i = 0; i < 256; i++) sum += copy[i << 12], copy[i << 12] = 1;
  if (ftruncate(fd, 1 << 19)) return 4;
  void *sync = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
  return sync == MAP_FAILED || sum ? 0 : 5;
}
