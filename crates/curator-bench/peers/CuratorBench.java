import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * The curator-bench worker for Java Curator: runs its locks, caches, counters and service discovery. Reads one request per line
 * and writes one reply per line ({@code src/protocol.rs} defines both).
 *
 * <p>Clients and locks are made and used as Curator's documentation shows, with the retry policy of its examples. A task is a
 * thread, since Curator's locks belong to threads.
 *
 * <p>Usage: {@code CuratorBench <connect string> <session timeout in milliseconds>}
 */
public final class CuratorBench {
    /** The number of re-entries between two readings of the clock. Reading it after each would dominate the measured time. */
    private static final int REENTRIES_PER_READING = 256;

    /** The interval between checks whether all readers are in the queue, in milliseconds. */
    private static final int POLL = 1;

    private final String connect;
    private final int timeout;
    private final BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private final List<CuratorFramework> sessions = new ArrayList<>();

    private CuratorBench(String connect, int timeout) {
        this.connect = connect;
        this.timeout = timeout;
    }

    public static void main(String[] arguments) throws IOException {
        new CuratorBench(arguments[0], Integer.parseInt(arguments[1])).serve();
    }

    private void serve() throws IOException {
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            CuratorBenchTasks.endAll();
            write(reply(line));
        }
        sessions.forEach(CuratorFramework::close);
        // After an error, threads may wait for ever; they would keep the process alive.
        Runtime.getRuntime().halt(0);
    }

    private static void write(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private String reply(String line) {
        String[] words = line.trim().split(" +");
        try {
            CuratorBenchRequest request = new CuratorBenchRequest(words);
            switch (words[0]) {
                case "open":
                    return open(request);
                case "supports":
                    String why = unsupported(request);
                    return why == null ? "yes" : "no " + why;
                case "run":
                    return run(request);
                default:
                    throw new IllegalArgumentException("unknown request " + words[0]);
            }
        } catch (Exception | OutOfMemoryError error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            return "error " + cause.toString().replaceAll("\\s+", " ");
        }
    }

    private String open(CuratorBenchRequest request) throws Exception {
        String to = request.values.getOrDefault("connect", connect);
        List<CuratorFramework> opened = new ArrayList<>();
        for (int i = 0; i < request.number("sessions"); i++) {
            CuratorFramework client = CuratorFrameworkFactory.builder()
                    .connectString(to)
                    .sessionTimeoutMs(timeout)
                    .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                    .build();
            client.start();
            opened.add(client);
        }
        for (CuratorFramework client : opened) {
            client.blockUntilConnected();
        }
        sessions.addAll(opened);
        return "ok";
    }

    /** Why this worker cannot run the request, or null if it can. */
    private static String unsupported(CuratorBenchRequest request) {
        String operation = request.values.getOrDefault("case", "");
        String lock = request.values.getOrDefault("lock", "");
        switch (lock) {
            case "mutex":
            case "read":
            case "write":
            case "semaphore":
            case "semaphore-mutex":
            case "multi":
                break;
            case "cache":
                return operation.startsWith("cache-") ? null : "a cache has only the operations cache-load, cache-storm and cache-reconnect";
            case "counter":
                return operation.equals("increment") ? null : "a counter has only the operation increment";
            case "receipt":
                return "Curator's counter keeps no receipt";
            case "discovery":
                return operation.equals("register") || operation.equals("find") ? null : "a discovery has only the operations register and find";
            default:
                return "Curator has no lock \"" + lock + "\"";
        }
        switch (operation) {
            case "cycle":
            case "distinct":
            case "handover":
                return null;
            case "reentry":
                return lock.startsWith("semaphore") ? "the lock is not reentrant" : null;
            case "readers":
                return lock.equals("read") ? null : "the operation readers needs the lock `read`";
            case "crowd":
            case "reconnect":
                if (CuratorBenchCrowd.IS_SHARED && (!lock.equals("mutex") || "each".equals(request.values.get("paths")))) {
                    return "only one mutex on one path can be shared";
                }
                boolean listed = lock.equals("mutex") || lock.equals("write");
                return listed ? null : "the lock's queue is not the list of the path's children";
            default:
                return "unknown operation \"" + operation + "\"";
        }
    }

    private String run(CuratorBenchRequest request) throws Exception {
        String why = unsupported(request);
        if (why != null) {
            throw new IllegalArgumentException(why);
        }
        switch (request.text("case")) {
            case "cycle":
                return repeat(List.of(request.text("path")), request);
            case "distinct":
                return repeat(request.paths(request.number("tasks")), request);
            case "reentry":
                return reentry(request);
            case "handover":
            case "increment":
                return handover(request);
            case "readers":
                return readers(request);
            case "cache-load":
            case "cache-storm":
            case "cache-reconnect":
                return CuratorBenchCache.run(session(0), request, this::report);
            case "register":
                return CuratorBenchDiscovery.register(session(0), request, this::report);
            case "find":
                return CuratorBenchDiscovery.find(session(0), session(1), request, this::report);
            default:
                return CuratorBenchCrowd.run(session(0), session(1), request, this::report);
        }
    }

    /** Runs a task for each path. Each task repeats its cycle until the time is over. */
    private String repeat(List<String> paths, CuratorBenchRequest request) throws Exception {
        long length = request.nanoseconds();
        CountDownLatch ready = new CountDownLatch(paths.size());
        List<long[]> results = CuratorBenchTasks.all(paths.size(), task -> {
            CuratorBenchLock lock = CuratorBenchLock.of(session(0), request, paths.get(task));
            lock.cycle();
            ready.countDown();
            ready.await();
            long begin = System.nanoTime();
            long operations = 0;
            long passed;
            do {
                lock.cycle();
                operations++;
                passed = System.nanoTime() - begin;
            } while (passed < length);
            return new long[] {operations, passed};
        });
        long operations = results.stream().mapToLong(result -> result[0]).sum();
        return done(operations, results.stream().mapToLong(result -> result[1]).max().orElse(0));
    }

    private String reentry(CuratorBenchRequest request) throws Exception {
        long length = request.nanoseconds();
        return CuratorBenchTasks.all(1, task -> {
            CuratorBenchLock lock = CuratorBenchLock.of(session(0), request, request.text("path"));
            lock.acquire();
            long begin = System.nanoTime();
            long operations = 0;
            long passed;
            do {
                for (int i = 0; i < REENTRIES_PER_READING; i++) {
                    lock.cycle();
                }
                operations += REENTRIES_PER_READING;
                passed = System.nanoTime() - begin;
            } while (passed < length);
            lock.release();
            return done(operations, passed);
        }).get(0);
    }

    private String handover(CuratorBenchRequest request) throws Exception {
        int count = request.number("sessions");
        long length = request.nanoseconds();
        session(count - 1);
        if (request.start() == 0) {
            CuratorBenchTasks.all(1, task -> {
                CuratorBenchLock.of(session(0), request, request.text("path")).cycle();
                return null;
            });
        } else {
            // With several processes, the warm-up has created the directories.
            Thread.sleep(Math.max(0, request.start() - System.currentTimeMillis()));
        }
        CountDownLatch ready = new CountDownLatch(count);
        List<Long> results = CuratorBenchTasks.all(count, task -> {
            CuratorBenchLock lock = CuratorBenchLock.of(session(task), request, request.text("path"));
            ready.countDown();
            ready.await();
            long begin = System.nanoTime();
            long operations = 0;
            while (true) {
                lock.acquire();
                boolean isOver = System.nanoTime() - begin >= length;
                lock.release();
                if (isOver) {
                    return operations;
                }
                operations++;
            }
        });
        return done(results.stream().mapToLong(Long::longValue).sum(), length);
    }

    /** In each round all readers wait for the writer. The writer's session is the first one after the readers' sessions. */
    private String readers(CuratorBenchRequest request) throws Exception {
        int count = request.number("sessions");
        int rounds = request.number("rounds");
        String path = request.text("path");
        CuratorFramework writing = session(count);
        return CuratorBenchTasks.all(1, onlyTask -> {
            CuratorBenchLock writer = CuratorBenchLock.of(new InterProcessReadWriteLock(writing, path).writeLock());
            long total = 0;
            for (int round = 0; round < rounds; round++) {
                writer.acquire();
                CuratorBenchTasks<Long> reading = new CuratorBenchTasks<>(count, task -> {
                    CuratorBenchLock reader = CuratorBenchLock.of(new InterProcessReadWriteLock(session(task), path).readLock());
                    reader.acquire();
                    long acquired = System.nanoTime();
                    reader.release();
                    return acquired;
                });
                CuratorBenchCrowd.awaitNodes(writing, path, count + 1, reading, POLL);
                long released = System.nanoTime();
                writer.release();
                long last = released;
                for (long acquired : reading.results()) {
                    last = Math.max(last, acquired);
                }
                total += last - released;
            }
            return done((long) count * rounds, total);
        }).get(0);
    }

    /** Writes a line, and waits for the request `go`. */
    private void report(String reply) throws IOException {
        write(reply);
        String line = input.readLine();
        if (!"go".equals(line)) {
            throw new IllegalStateException("expected `go`, got " + line);
        }
    }

    private CuratorFramework session(int number) {
        if (number >= sessions.size()) {
            throw new IllegalStateException("session " + number + " is not open");
        }
        return sessions.get(number);
    }

    static String done(long operations, long nanoseconds) {
        return "done operations=" + operations + " nanoseconds=" + nanoseconds;
    }
}
