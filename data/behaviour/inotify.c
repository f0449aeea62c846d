/* Watches a directory in which a child makes, changes, moves and removes files. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
  char events[4096], name[32];
  mkdir("watched", 0755);
  int fd = inotify_init1(IN_CLOEXEC);
  if (inotify_add_watch(fd, "watched", IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_CLOSE_WRITE) < 0) return 1;
  if (!fork()) {
    for (int i = 0; i < 20; i++) {
      snprintf(name, sizeof name, "watched/%d", i);
      int file = open(name, O_WRONLY | O_CREAT, 0644);
      if (write(file, name, sizeof name) != sizeof name) _exit(1);
      close(file);
      usleep(500);
      if (i % 2 && rename(name, "watched/moved")) _exit(2);
    }
    unlink("watched/moved");
    mkdir("watched/last", 0700);
    _exit(0);
  }
  int seen = 0;
  while (access("watched/last", F_OK)) seen += read(fd, events, sizeof events) > 0;
  wait(0);
  return seen > 0 ? 0 : 2;
}
