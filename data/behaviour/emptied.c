/* Two threads empty a directory that the first one then removes, and a renamed one takes its place. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void *empty(void *first) {
  char name[32];
  for (int i = (long)first; i < 200; i += 2) {
    snprintf(name, sizeof name, "dir/%d", i);
    if (unlink(name)) return first;
  }
  return 0;
}

int main(void) {
  for (int round = 0; round < 3; round++) {
    char name[32];
    mkdir("dir", 0755);
    for (int i = 0; i < 200; i++) {
      snprintf(name, sizeof name, "dir/%d", i);
      close(open(name, O_WRONLY | O_CREAT, 0644));
    }
    pthread_t one, other;
    pthread_create(&one, 0, empty, (void *)0);
    pthread_create(&other, 0, empty, (void *)1);
    pthread_join(one, 0);
    pthread_join(other, 0);
    if (round == 1) {
      mkdir("next", 0700);
      if (rename("next", "dir")) return 1;
    }
    if (rmdir("dir")) return 2;
  }
  return mkdir("dir", 0711);
}
