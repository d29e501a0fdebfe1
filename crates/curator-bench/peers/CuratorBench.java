import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/**
 * Java Curator's locks, measured by curator-bench: one request a line, one answer a line ({@code src/protocol.rs} has both).
 *
 * <p>Clients and locks are made and used as Curator's documentation shows, with the retry policy of its examples. A task is a
 * thread, since Curator's locks belong to threads.
 *
 * <p>Usage: {@code CuratorBench <connect string> <session timeout in milliseconds>}
 */
public final class CuratorBench {
    /** So many re-entries are made between two looks at the clock, which would be what is measured otherwise. */
    private static final int UNWATCHED = 256;

    /** How often one looks whether others have come, in milliseconds: of readers, and of a crowd. */
    private static final int POLL = 1;

    private static final int CROWD_POLL = 10;

    /** All waiters of a crowd on one path share one lock's object, and do not have one each. */
    private static final boolean IS_SHARED = Boolean.getBoolean("curator-bench.shared");

    /** So many threads look at a path each, or take a lock. */
    private static final int LOOKING = 64;

    /** Threads whose tasks are done wait for it: the system forgets the context switches of a thread that has ended. */
    private static volatile CountDownLatch nextRequest = new CountDownLatch(1);

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
            nextRequest.countDown();
            nextRequest = new CountDownLatch(1);
            say(answer(line));
        }
        sessions.forEach(CuratorFramework::close);
        // After an error, threads may wait for ever.
        Runtime.getRuntime().halt(0);
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private String answer(String line) {
        String[] words = line.trim().split(" +");
        try {
            Request request = new Request(words);
            switch (words[0]) {
                case "open":
                    return open(request);
                case "supports":
                    String why = unsupported(request);
                    return why == null ? "yes" : "no " + why;
                case "run":
                    return run(request);
                default:
                    throw new IllegalArgumentException("there is no request " + words[0]);
            }
        } catch (Exception | OutOfMemoryError error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            return "error " + cause.toString().replaceAll("\\s+", " ");
        }
    }

    private String open(Request request) throws Exception {
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

    /** Why this cannot be played, or null. */
    private static String unsupported(Request request) {
        String act = request.values.getOrDefault("case", "");
        String lock = request.values.getOrDefault("lock", "");
        switch (lock) {
            case "mutex":
            case "read":
            case "write":
            case "semaphore":
            case "semaphore-mutex":
            case "multi":
                break;
            default:
                return "Curator has no lock \"" + lock + "\"";
        }
        switch (act) {
            case "cycle":
            case "distinct":
            case "handover":
                return null;
            case "reentry":
                return lock.startsWith("semaphore") ? "it is not reentrant" : null;
            case "readers":
                return lock.equals("read") ? null : "readers have the lock `read`";
            case "crowd":
            case "reconnect":
                if (IS_SHARED && (!lock.equals("mutex") || "each".equals(request.values.get("paths")))) {
                    return "only a mutex on one path is shared";
                }
                boolean listed = lock.equals("mutex") || lock.equals("write");
                return listed ? null : "its queue is not a list of the path's children";
            default:
                return "there is no case \"" + act + "\"";
        }
    }

    private String run(Request request) throws Exception {
        String why = unsupported(request);
        if (why != null) {
            throw new IllegalArgumentException(why);
        }
        switch (request.text("case")) {
            case "cycle":
                return repeat(1, task -> lock(session(0), request, request.text("path")), request);
            case "distinct":
                String path = request.text("path");
                return repeat(request.number("tasks"), task -> lock(session(0), request, path + "/" + task), request);
            case "reentry":
                return reentry(request);
            case "handover":
                return handover(request);
            case "readers":
                return readers(request);
            default:
                return crowd(request);
        }
    }

    // Cases.

    /** All tasks repeat their cycles until the time is over. */
    private String repeat(int count, Locks locks, Request request) throws Exception {
        long length = request.nanoseconds();
        CountDownLatch ready = new CountDownLatch(count);
        List<long[]> results = all(count, task -> {
            BenchLock lock = locks.of(task);
            cycle(lock);
            ready.countDown();
            ready.await();
            long begin = System.nanoTime();
            long operations = 0;
            long passed;
            do {
                cycle(lock);
                operations++;
                passed = System.nanoTime() - begin;
            } while (passed < length);
            return new long[] {operations, passed};
        });
        long operations = results.stream().mapToLong(result -> result[0]).sum();
        return done(operations, results.stream().mapToLong(result -> result[1]).max().orElse(0));
    }

    private String reentry(Request request) throws Exception {
        long length = request.nanoseconds();
        return all(1, task -> {
            BenchLock lock = lock(session(0), request, request.text("path"));
            lock.acquire();
            long begin = System.nanoTime();
            long operations = 0;
            long passed;
            do {
                for (int i = 0; i < UNWATCHED; i++) {
                    cycle(lock);
                }
                operations += UNWATCHED;
                passed = System.nanoTime() - begin;
            } while (passed < length);
            lock.release();
            return done(operations, passed);
        }).get(0);
    }

    private String handover(Request request) throws Exception {
        int count = request.number("sessions");
        long length = request.nanoseconds();
        session(count - 1);
        if (request.start() == 0) {
            all(1, task -> {
                cycle(lock(session(0), request, request.text("path")));
                return null;
            });
        } else {
            // Several processes have made everything when they warmed up.
            Thread.sleep(Math.max(0, request.start() - System.currentTimeMillis()));
        }
        CountDownLatch ready = new CountDownLatch(count);
        List<Long> results = all(count, task -> {
            BenchLock lock = lock(session(task), request, request.text("path"));
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

    /** In each round all readers wait for the writer. The writer's session is the one behind the readers'. */
    private String readers(Request request) throws Exception {
        int count = request.number("sessions");
        int rounds = request.number("rounds");
        String path = request.text("path");
        CuratorFramework writing = session(count);
        return all(1, nobody -> {
            BenchLock writer = exclusive(new InterProcessReadWriteLock(writing, path).writeLock());
            long total = 0;
            for (int round = 0; round < rounds; round++) {
                writer.acquire();
                Tasks<Long> reading = new Tasks<>(count, task -> {
                    BenchLock reader = exclusive(new InterProcessReadWriteLock(session(task), path).readLock());
                    reader.acquire();
                    long acquired = System.nanoTime();
                    reader.release();
                    return acquired;
                });
                awaitNodes(writing, path, count + 1, reading, POLL);
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

    /** Many threads wait over session 0 for what session 1 has. */
    private String crowd(Request request) throws Exception {
        int waiters = request.number("waiters");
        CuratorFramework waiting = session(0);
        CuratorFramework holding = session(1);
        List<String> paths = new ArrayList<>();
        if ("each".equals(request.values.get("paths"))) {
            for (int waiter = 0; waiter < waiters; waiter++) {
                paths.add(request.text("path") + "/" + waiter);
            }
        } else {
            paths.add(request.text("path"));
        }
        String[] held = new String[paths.size()];
        all(Math.min(LOOKING, paths.size()), first -> {
            for (int path = first; path < paths.size(); path += LOOKING) {
                held[path] = hold(holding, request, paths.get(path));
            }
            return null;
        });
        say("held");
        awaitGo();
        BenchLock shared = IS_SHARED ? lock(waiting, request, request.text("path")) : null;
        long begin = System.nanoTime();
        Tasks<Void> tasks = new Tasks<>(waiters, task -> {
            cycle(IS_SHARED ? shared : lock(waiting, request, paths.get(task % paths.size())));
            return null;
        });
        all(Math.min(LOOKING, paths.size()), first -> {
            for (int path = first; path < paths.size(); path += LOOKING) {
                awaitNodes(holding, paths.get(path), 1 + waiters / paths.size(), tasks, CROWD_POLL);
            }
            return null;
        });
        say("queued nanoseconds=" + (System.nanoTime() - begin));
        awaitGo();
        begin = System.nanoTime();
        for (String node : held) {
            holding.delete().inBackground().forPath(node);
        }
        tasks.results();
        return done(waiters, System.nanoTime() - begin);
    }

    private void awaitGo() throws IOException {
        String line = input.readLine();
        if (!"go".equals(line)) {
            throw new IllegalStateException(line + " came in place of `go`");
        }
    }

    /**
     * Puts a node into the directory that has the lock as long as it is there. A thread for each lock that is held is more than what
     * is measured needs.
     */
    private static String hold(CuratorFramework client, Request request, String path) throws Exception {
        String name = request.text("lock").equals("write") ? "__WRIT__" : "lock-";
        return client.create()
                .creatingParentContainersIfNeeded()
                .withProtection()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                .forPath(path + "/" + name);
    }

    /** Looks until there are so many nodes. That somebody waits no more is an error. */
    private static void awaitNodes(CuratorFramework client, String path, int nodes, Tasks<?> tasks, int poll)
            throws Exception {
        while (true) {
            Stat stat = client.checkExists().forPath(path);
            if (stat != null && stat.getNumChildren() >= nodes) {
                return;
            }
            tasks.mustAllRun();
            Thread.sleep(poll);
        }
    }

    // Locks.

    private interface BenchLock {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    private interface Locks {
        BenchLock of(int task) throws Exception;
    }

    private static void cycle(BenchLock lock) throws Exception {
        lock.acquire();
        lock.release();
    }

    private static BenchLock lock(CuratorFramework client, Request request, String path) {
        switch (request.text("lock")) {
            case "mutex":
                return exclusive(new InterProcessMutex(client, path));
            case "read":
                return exclusive(new InterProcessReadWriteLock(client, path).readLock());
            case "write":
                return exclusive(new InterProcessReadWriteLock(client, path).writeLock());
            case "semaphore":
                return semaphore(new InterProcessSemaphoreV2(client, path, 1));
            case "semaphore-mutex":
                return exclusive(new InterProcessSemaphoreMutex(client, path));
            default:
                List<String> paths = new ArrayList<>();
                for (int member = 0; member < request.number("members"); member++) {
                    paths.add(path + "/" + member);
                }
                return exclusive(new InterProcessMultiLock(client, paths));
        }
    }

    private static BenchLock exclusive(InterProcessLock lock) {
        return new BenchLock() {
            @Override
            public void acquire() throws Exception {
                lock.acquire();
            }

            @Override
            public void release() throws Exception {
                lock.release();
            }
        };
    }

    private static BenchLock semaphore(InterProcessSemaphoreV2 semaphore) {
        return new BenchLock() {
            private Lease lease;

            @Override
            public void acquire() throws Exception {
                lease = semaphore.acquire();
            }

            @Override
            public void release() {
                semaphore.returnLease(lease);
            }
        };
    }

    // Threads.

    private interface Task<T> {
        T run(int number) throws Exception;
    }

    private static <T> List<T> all(int count, Task<T> task) throws Exception {
        return new Tasks<>(count, task).results();
    }

    /** Threads, each with a number. */
    private static final class Tasks<T> {
        private final int count;
        private final BlockingQueue<FutureTask<T>> ended = new LinkedBlockingQueue<>();

        Tasks(int count, Task<T> task) {
            this.count = count;
            for (int i = 0; i < count; i++) {
                int number = i;
                FutureTask<T> started = new FutureTask<T>(() -> task.run(number)) {
                    @Override
                    protected void done() {
                        ended.add(this);
                    }
                };
                CountDownLatch next = nextRequest;
                Runnable stay = () -> {
                    started.run();
                    try {
                        next.await();
                    } catch (InterruptedException error) {
                        // It need not stay.
                    }
                };
                Thread thread = new Thread(stay, "task-" + i);
                thread.setDaemon(true);
                thread.start();
            }
        }

        /** Returns when the last one has ended, or one has failed: others may wait for that one for ever. */
        List<T> results() throws Exception {
            List<T> results = new ArrayList<>();
            while (results.size() < count) {
                results.add(ended.take().get());
            }
            return results;
        }

        void mustAllRun() throws Exception {
            FutureTask<T> task = ended.peek();
            if (task != null) {
                task.get();
                throw new IllegalStateException("somebody has not waited");
            }
        }
    }

    private CuratorFramework session(int number) {
        if (number >= sessions.size()) {
            throw new IllegalStateException("there is no session " + number + ": open more");
        }
        return sessions.get(number);
    }

    private static String done(long operations, long nanoseconds) {
        return "done operations=" + operations + " nanoseconds=" + nanoseconds;
    }

    /** The values of a line. */
    private static final class Request {
        final Map<String, String> values = new HashMap<>();

        Request(String[] words) {
            for (String word : words) {
                int end = word.indexOf('=');
                if (end > 0) {
                    values.put(word.substring(0, end), word.substring(end + 1));
                }
            }
        }

        String text(String key) {
            String value = values.get(key);
            if (value == null) {
                throw new IllegalArgumentException("there is no " + key);
            }
            return value;
        }

        int number(String key) {
            return Integer.parseInt(text(key));
        }

        long nanoseconds() {
            return (long) (Double.parseDouble(text("seconds")) * 1e9);
        }

        /** When to begin, in milliseconds since 1970. */
        long start() {
            return Long.parseLong(values.getOrDefault("start", "0"));
        }
    }
}
