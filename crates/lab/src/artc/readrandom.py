"""LevelDB with nothing special, as a user has it, which maps its tables: prepare FOLDER, or read FOLDER THREADS READS SEED."""

import os
import random
import sys
import threading

import plyvel

RECORDS = 60000


def key(number):
    return b"%016d" % number


def prepare(folder, seed):
    values = random.Random(seed)
    db = plyvel.DB(folder, create_if_missing=True)
    for number in range(RECORDS):
        db.put(key(number), values.randbytes(400))
    db.close()
    # What was in its log becomes a table.
    plyvel.DB(folder).close()


def read(folder, threads, reads, seed):
    db = plyvel.DB(folder)

    def look_up(thread):
        keys = random.Random(seed * 1000 + thread)
        for _ in range(reads):
            db.get(key(keys.randrange(RECORDS)))

    workers = [threading.Thread(target=look_up, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    db.close()


task, folder, *numbers = sys.argv[1:]
folder = os.path.join(folder, "db")
{"prepare": prepare, "read": read}[task](folder, *map(int, numbers))
