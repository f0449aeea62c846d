/* Gives rights up, makes files as another user, and is refused what is not that user's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void) {
  umask(027);
  int own = open("own", O_WRONLY | O_CREAT, 0666);
  if (mkdir("shared", 0777) || chmod("shared", 01777) || chmod("own", 0600)) return 1;
  if (setgroups(0, 0) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)) return 2;
  int theirs = open("shared/theirs", O_WRONLY | O_CREAT, 0666);
  if (theirs < 0 || write(theirs, "theirs", 6) != 6) return 3;
  if (open("own", O_RDONLY) >= 0 || !chmod("own", 0666) || !mkdir("/refused", 0777)) return 4;
  if (write(own, "still", 5) != 5) return 5;
  return chmod("shared/theirs", 0604);
}
