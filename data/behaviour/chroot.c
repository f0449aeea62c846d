/* Makes and changes files under another root, and leaves it again through an open directory. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int make(const char *name) {
  int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
  return fd < 0 || write(fd, name, 3) != 3 || close(fd);
}

int main(void) {
  if (mkdir("jail", 0755) || mkdir("jail/etc", 0755) || make("out.1")) return 1;
  int before = open(".", O_RDONLY | O_DIRECTORY);
  if (chroot("jail") || chdir("/")) return 2;
  if (make("/in.1") || make("etc/in.2") || make("/../../in.3") || mkdir("/m", 0700)) return 3;
  if (symlink("/etc/in.2", "link") || make("/m/in.4") || rename("/m/in.4", "/etc/in.4")) return 4;
  int through = open("/link", O_WRONLY | O_APPEND);
  if (through < 0 || write(through, "more", 4) != 4) return 5;
  if (fchdir(before) || make("out.2") || chroot(".")) return 6;
  return make("out.3");
}
