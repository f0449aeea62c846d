/* Gives Unix sockets names, changes and removes these, and passes a descriptor. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int bound(const char *path) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  strcpy(name.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return bind(fd, (void *)&name, sizeof name) ? -1 : fd;
}

int main(void) {
  struct stat seen;
  if (bound("stays") < 0 || bound("stays") >= 0 || bound("goes") < 0) return 1;
  if (stat("stays", &seen) || !S_ISSOCK(seen.st_mode) || chmod("stays", 0600)) return 2;
  if (open("stays", O_RDONLY) >= 0 || unlink("goes") || bound("goes") < 0) return 3;
  mode_t mask = umask(077);
  if (mkdir("d", 0755) || bound("d/inside") < 0 || rename("d/inside", "d/moved")) return 4;
  umask(mask);
  if (bound("none/there") >= 0) return 5;
  int abstract = socket(AF_UNIX, SOCK_DGRAM, 0);
  struct sockaddr_un hidden = {.sun_family = AF_UNIX, .sun_path = "\0behaviour"};
  return bind(abstract, (void *)&hidden, sizeof(sa_family_t) + 10) ? 6 : 0;
}
