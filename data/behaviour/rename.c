/* Renames in every way: over files and directories, exchanging, refusing, and through links. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int make(const char *name) {
  int fd = open(name, O_WRONLY | O_CREAT, 0644);
  return fd < 0 || write(fd, name, 1) != 1 || close(fd);
}

int main(void) {
  if (make("a") || make("b") || make("c") || mkdir("d", 0755) || mkdir("e", 0755) || make("d/inside")) return 1;
  if (rename("a", "b") || renameat2(AT_FDCWD, "b", AT_FDCWD, "c", RENAME_EXCHANGE)) return 2;
  if (!renameat2(AT_FDCWD, "b", AT_FDCWD, "c", RENAME_NOREPLACE)) return 3;
  if (!rename("e", "d") || rename("d", "e")) return 4;
  if (!rename("b", "e") || !rename("e", "b")) return 5;
  if (link("b", "hard") || rename("b", "hard") || symlink("c", "soft") || rename("soft", "softer")) return 6;
  if (link("/proc/self/cwd/c", "through") || linkat(AT_FDCWD, "softer", AT_FDCWD, "followed", AT_SYMLINK_FOLLOW)) return 7;
  if (mkfifo("fifo", 0600) || rename("fifo", "e/fifo")) return 8;
  if (chdir("e") || rename("inside", "../out") || rename("../e", "../f")) return 9;
  return make("last") || !rename("../f", "../f/f") ? 10 : 0;
}
