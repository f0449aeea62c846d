
import mmap, random, sys, time
random.seed(int(sys.argv[1]))
P = 4096
kept = []
def check(m, what):
    return sum(m[p * P:p * P + P] != bytes([c]) * P for p, c in enumerate(what))
while True:
    n = random.randrange(8, 41) * 256
    m = mmap.mmap(-1, n * P, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    what = [0] * n
    for p in range(n):
        what[p] = random.randrange(1, 256)
        m[p * P:p * P + P] = bytes([what[p]]) * P
    kept.append((m, what))
    time.sleep(0.1)
    for m, what in random.sample(kept, min(2, len(kept))):
        start = random.randrange(len(what))
        count = min(random.choice((1, 100, 1000)), len(what) - start)
        m.madvise(mmap.MADV_DONTNEED, start * P, count * P)
        what[start:start + count] = [0] * count
    wrong = pages = 0
    for m, what in kept:
        wrong += check(m, what)
        pages += len(what)
    while len(kept) > 4: kept.pop(random.randrange(len(kept)))[0].close()
    print(pages, wrong, flush=True)
