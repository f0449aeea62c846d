# One run of a policy of libCacheSim over a trace in its own format: version, seconds of CPU time, share of misses.
import importlib.metadata
import json
import sys
import time

import libcachesim

path, policy, lines, power = sys.argv[1:]
reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE)
cache = getattr(libcachesim, policy)(int(lines), hashpower=int(power))
before = time.process_time()
missed, _ = cache.process_trace(reader)
took = time.process_time() - before
print(json.dumps({"version": importlib.metadata.version("libcachesim"), "seconds": took, "missed": missed}))
