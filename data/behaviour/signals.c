/* Writes while signals come, and ends by one of them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int out;

static void tick(int number) {
  if (write(out, "tick\n", 5) != 5) _exit(number);
}

int main(void) {
  static char block[5000];
  int ends[2];
  out = open("ticks", O_WRONLY | O_CREAT | O_APPEND, 0644);
  struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, 0);
  struct itimerval often = {{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &often, 0);
  int data = open("data", O_WRONLY | O_CREAT, 0644);
  for (int i = 0; i < 200; i++)
    if (write(data, block, sizeof block) != sizeof block) return 1;
  if (pipe(ends)) return 2;
  pid_t child = fork();
  if (!child) {
    if (read(ends[0], block, 1) < 0) _exit(1);
    _exit(0);
  }
  usleep(10000);
  kill(child, SIGKILL);
  waitpid(child, 0, 0);
  raise(SIGSEGV);
  return 3;
}
