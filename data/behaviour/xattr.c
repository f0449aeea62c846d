/* Sets, lists, reads and removes extended attributes. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

int main(void) {
  char value[300];
  memset(value, 'v', sizeof value);
  int fd = open("file", O_RDWR | O_CREAT, 0644);
  if (fsetxattr(fd, "user.one", value, 10, XATTR_CREATE)) return 1;
  if (setxattr("file", "user.two", value, 300, 0)) return 2;
  if (setxattr("file", "user.one", value, 20, XATTR_REPLACE)) return 3;
  if (!setxattr("file", "user.one", value, 20, XATTR_CREATE)) return 4;
  if (getxattr("file", "user.two", value, 300) != 300) return 5;
  if (listxattr("file", value, 300) <= 0) return 6;
  if (removexattr("file", "user.two") || !removexattr("file", "user.none")) return 7;
  if (mkdir("dir", 0755) || setxattr("dir", "user.dir", value, 1, 0)) return 8;
  return getxattr("dir", "user.none", value, 10) < 0 ? 0 : 9;
}
