/* Works on files in the folder that it is given by requests of an io_uring alone, without a library. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int ring;
static struct io_uring_params params;
static unsigned char *queue;
static struct io_uring_sqe *entries;
static unsigned taken;

static unsigned *at(unsigned offset) { return (unsigned *)(queue + offset); }

static struct io_uring_sqe *ask(int opcode, int fd, const void *address, unsigned len, unsigned long long offset)
{
	unsigned tail = *at(params.sq_off.tail), index = tail & (params.sq_entries - 1);
	struct io_uring_sqe *entry = &entries[index];
	memset(entry, 0, sizeof *entry);
	entry->opcode = opcode, entry->fd = fd, entry->len = len, entry->off = offset;
	entry->addr = (unsigned long)address;
	at(params.sq_off.array)[index] = index;
	__atomic_store_n(at(params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	taken++;
	return entry;
}

/* Submits what was asked for, and waits for all of it; the last result. */
static int go(void)
{
	int result = 0;
	if (syscall(SYS_io_uring_enter, ring, taken, taken, IORING_ENTER_GETEVENTS, 0, 0) != taken)
		exit(3);
	for (; taken; taken--) {
		unsigned head = *at(params.cq_off.head);
		struct io_uring_cqe *done = (struct io_uring_cqe *)(queue + params.cq_off.cqes);
		result = done[head & (params.cq_entries - 1)].res;
		__atomic_store_n(at(params.cq_off.head), head + 1, __ATOMIC_RELEASE);
	}
	return result;
}

int main(int count, char **words)
{
	static char buffer[8192];
	struct iovec parts[2] = {{buffer, 100}, {buffer, 200}};
	struct statx seen;
	int flags = MAP_SHARED | MAP_POPULATE, file, folder;
	if (count < 2 || chdir(words[1]))
		return 2;
	ring = syscall(SYS_io_uring_setup, 16, &params);
	if (ring < 0)
		return 75;
	queue = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, flags, ring, IORING_OFF_SQ_RING);
	entries = mmap(0, 16 * sizeof *entries, PROT_READ | PROT_WRITE, flags, ring, IORING_OFF_SQES);
	ask(IORING_OP_MKDIRAT, AT_FDCWD, "d", 0755, 0);
	go();
	ask(IORING_OP_OPENAT, AT_FDCWD, "d/f", 0644, 0)->open_flags = O_RDWR | O_CREAT;
	file = go();
	if (file < 0)
		return 4;
	/* Three that follow each other, and one beside them. */
	ask(IORING_OP_WRITE, file, buffer, 8192, 0)->flags = IOSQE_IO_LINK;
	ask(IORING_OP_FSYNC, file, 0, 0, 0)->flags = IOSQE_IO_LINK;
	ask(IORING_OP_READ, file, buffer, 4096, 4096);
	ask(IORING_OP_NOP, -1, 0, 0, 0);
	go();
	ask(IORING_OP_WRITEV, file, parts, 2, 300);
	ask(IORING_OP_FALLOCATE, file, (void *)4096, 0, 8192)->flags = IOSQE_IO_DRAIN;
	go();
	/* By a slot of the ring's table. */
	syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &file, 1);
	ask(IORING_OP_READ, 0, buffer, 512, 1024)->flags = IOSQE_FIXED_FILE;
	go();
	ask(IORING_OP_STATX, AT_FDCWD, "d/f", STATX_SIZE, (unsigned long)&seen);
	go();
	ask(IORING_OP_RENAMEAT, AT_FDCWD, "d/f", AT_FDCWD, (unsigned long)"d/g");
	go();
	ask(IORING_OP_CLOSE, file, 0, 0, 0);
	go();
	ask(IORING_OP_UNLINKAT, AT_FDCWD, "d/g", 0, 0);
	go();
	ask(IORING_OP_READ, file, buffer, 100, 0);
	go();
	folder = open("d", O_RDONLY | O_DIRECTORY);
	if (count > 2) {
		/* What no trace holds. */
		ask(IORING_OP_FGETXATTR, folder, "user.none", 8, (unsigned long)buffer);
		go();
	}
	close(folder);
	return 0;
}
