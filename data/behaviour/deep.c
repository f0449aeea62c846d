/* Goes down through directories beyond the longest path, makes files there, and comes back. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void) {
  char name[128];
  memset(name, 'n', sizeof name);
  name[100] = 0;
  for (int i = 0; i < 60; i++) {
    if (mkdir(name, 0755) || chdir(name)) return 1;
    int fd = open("file", O_WRONLY | O_CREAT, 0644);
    if (write(fd, name, 10 + i) != 10 + i || close(fd)) return 2;
    if (i % 3 == 0 && rename("file", "renamed")) return 3;
  }
  struct stat seen;
  for (int i = 0; i < 60; i++) {
    if (chdir("..") || stat(name, &seen)) return 4;
    if (i % 7 == 0 && symlink(name, "link")) return 5;
  }
  return 0;
}
