/* Three processes take turns by flock, and two threads by locks of records. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static void *records(void *arg) {
  int fd = open("records", O_RDWR | O_CREAT, 0644);
  for (int i = 0; i < 20; i++) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 100};
    fcntl(fd, F_OFD_SETLKW, &lock);
    lseek(fd, 0, SEEK_END);
    if (write(fd, "record", 6) != 6) return arg;
    lock.l_type = F_UNLCK;
    fcntl(fd, F_OFD_SETLK, &lock);
  }
  close(fd);
  return 0;
}

int main(void) {
  for (int i = 0; i < 3; i++)
    if (!fork()) {
      int fd = open("turns", O_RDWR | O_CREAT | O_APPEND, 0644);
      for (int k = 0; k < 20; k++) {
        flock(fd, LOCK_EX);
        if (write(fd, "hello", 5) != 5) _exit(1);
        usleep(200);
        flock(fd, LOCK_UN);
        usleep(100);
      }
      _exit(0);
    }
  while (wait(0) > 0);
  pthread_t one, other;
  pthread_create(&one, 0, records, 0);
  pthread_create(&other, 0, records, 0);
  pthread_join(one, 0);
  return pthread_join(other, 0);
}
