"""LevelDB as its own benchmark uses it: TASK FOLDER BALLAST THREADS OPERATIONS SEED.

The work lies between two calls that a recording shows; how many nanoseconds it took is then in the file `took`."""

import os
import random
import sys
import threading
import time

import plyvel

# LevelDB maps the first tables that a process opens, this many, and reads all others by pread, as it does in databases that are
# larger. Another database keeps that many open, so that the one that is measured is read by calls.
MAPPED = 1000
# More than the buffer of the modelled disk holds.
RECORDS = 120000
# Small, so that there are as many tables as in a database of the usual ones that does not fit into memory.
TABLE_BYTES = 1 << 17
BALLAST_BYTES = 66000


def key(number):
    return b"%016d" % number


def make_ballast(folder):
    """One table for each record: it is larger than what LevelDB keeps in memory here."""
    db = plyvel.DB(folder, create_if_missing=True, write_buffer_size=1 << 16)
    for number in range(MAPPED + 100):
        db.put(key(number), b"v" * BALLAST_BYTES)
    db.close()


def make_records(folder, seed):
    """In the order of their keys: tables that overlap no others go where no compaction takes them up while reads are measured."""
    values = random.Random(seed)
    db = plyvel.DB(folder, create_if_missing=True, write_buffer_size=TABLE_BYTES)
    for number in range(RECORDS):
        db.put(key(number), values.randbytes(400))
    db.close()
    # What was in its log becomes a table.
    plyvel.DB(folder).close()


def map_ballast(folder):
    db = plyvel.DB(folder, max_open_files=MAPPED * 4)
    for number in range(MAPPED + 100):
        db.get(key(number))
    return db


def read_random(db, thread, operations, seed):
    keys = random.Random(seed * 1000 + thread)
    for _ in range(operations):
        db.get(key(keys.randrange(RECORDS)))


def fill_sync(db, thread, operations, seed):
    for number in range(operations):
        db.put(key(number * 1000 + thread), b"v" * 100, sync=True)


def work(task, threads, operations, seed):
    os.access("work begins", os.F_OK)
    begin = time.monotonic_ns()
    db = plyvel.DB("db", create_if_missing=True)
    workers = [threading.Thread(target=task, args=(db, n, operations, seed)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    end = time.monotonic_ns()
    # What comes next waits for the threads, which no call on files shows.
    os.access("work ends", os.F_OK)
    db.close()
    return end - begin


def main(task, folder, ballast, threads, operations, seed):
    if task == "prepare":
        make_ballast(ballast)
        make_records(os.path.join(folder, "db"), int(seed))
        return
    held = map_ballast(ballast)
    os.chdir(folder)
    tasks = {"readrandom": read_random, "fillsync": fill_sync}
    took = work(tasks[task], int(threads), int(operations), int(seed))
    held.close()
    with open("took", "w") as out:
        out.write(str(took))


main(*sys.argv[1:])
