import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.utils.ZKPaths;

/**
 * Sessions of Java Curator that execute commands: one command per line, one reply per line.
 *
 * <p>A command is {@code <session> <verb> <argument>...}. Each session has a thread, which executes its commands
 * in turn, so a blocking command delays only those of its session. A reply is {@code <session> ok}, optionally followed by
 * words, or {@code <session> error} and the name of the exception.
 *
 * <p>{@code <session> open <hosts> <session timeout in milliseconds>} is the first command of a session, and {@code <session>
 * close} the last; {@code <other> share <session>} makes another thread for it. The program ends when its input ends.
 */
public final class CuratorAgent {
    /** The longest wait, in seconds. Only a failing test waits so long. */
    static final int TIMEOUT = 30;

    static final Map<String, Session> SESSIONS = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            SESSIONS.computeIfAbsent(words[0], Session::new).commands.add(Arrays.asList(words).subList(1, words.length));
        }
        // The end of the input: the test has ended, or has all replies that it needs.
        Runtime.getRuntime().halt(0);
    }

    static void answer(String session, String answer) {
        synchronized (System.out) {
            System.out.println(session + " " + answer);
            System.out.flush();
        }
    }

    /** One session and its thread. */
    static final class Session implements Runnable {
        final BlockingQueue<List<String>> commands = new LinkedBlockingQueue<>();
        private final String name;
        private final Map<String, InterProcessLock> locks = new HashMap<>();
        private final Map<String, InterProcessReadWriteLock> readWriteLocks = new HashMap<>();
        private final BlockingQueue<String> events = new LinkedBlockingQueue<>();
        private volatile CuratorFramework client;
        private CuratorAgentSemaphores semaphores;
        private CuratorAgentRecipes recipes;
        private CuratorAgentDiscovery discovery;

        Session(String name) {
            this.name = name;
            Thread thread = new Thread(this, name);
            thread.setDaemon(true);
            thread.start();
        }

        @Override
        public void run() {
            while (true) {
                try {
                    List<String> command = commands.take();
                    Object result = run(command.get(0), command.subList(1, command.size()).toArray(new String[0]));
                    answer(name, "ok" + words(result));
                    if (command.get(0).equals("close")) {
                        return;
                    }
                } catch (Exception error) {
                    answer(name, "error " + error.getClass().getSimpleName());
                }
            }
        }

        private static String words(Object result) {
            if (result == null) {
                return "";
            }
            if (result instanceof Collection<?> many) {
                return many.stream().map(one -> " " + one).collect(Collectors.joining());
            }
            return " " + result;
        }

        private Object run(String verb, String... with) throws Exception {
            switch (verb) {
                case "open":
                    return open(with[0], Integer.parseInt(with[1]));
                case "close":
                    client.close();
                    return null;
                case "session":
                    return session();
                case "share":
                    use(SESSIONS.get(with[0]).client);
                    return null;
                case "round-trips":
                    roundTrips(client, Integer.parseInt(with[0]));
                    return null;
                case "acquire":
                    return lock(with[0], with[1]).acquire(TIMEOUT, TimeUnit.SECONDS);
                case "release":
                    lock(with[0], with[1]).release();
                    return null;
                case "participants":
                    return participants(with[0], with[1]);
                case "cycles":
                    return cycles(with[0], with[1], with[2], Integer.parseInt(with[3]), Long.parseLong(with[4]));
                case "read-write-cycles":
                    return readWriteCycles(with[0], with[1], Integer.parseInt(with[2]), Long.parseLong(with[3]));
                case "lease":
                    return semaphores.lease(with[0], with[1], Integer.parseInt(with[2]));
                case "return":
                    return semaphores.giveBack(with[0]);
                case "leases":
                    return semaphores.leases(with[0], with[1], with[2], Integer.parseInt(with[3]), Long.parseLong(with[4]));
                case "count":
                    return semaphores.count(with[0]).getCount();
                case "set-count":
                    semaphores.count(with[0]).setCount(Integer.parseInt(with[1]));
                    return null;
                case "revocable":
                    ((InterProcessMutex) lock("mutex", with[0])).makeRevocable(lock -> events.add("revoked"));
                    return null;
                case "revoke":
                    Revoker.attemptRevoke(client, with[0]);
                    return null;
                case "event":
                    String event = events.poll(TIMEOUT, TimeUnit.SECONDS);
                    return event == null ? "none" : event;
                default:
                    return verb.startsWith("service-") ? discovery.run(verb, with) : recipes.run(verb, with);
            }
        }

        // The session.

        private Object open(String hosts, int timeout) throws Exception {
            CuratorFramework opened = CuratorFrameworkFactory.builder()
                    .connectString(hosts)
                    .sessionTimeoutMs(timeout)
                    .connectionTimeoutMs(TIMEOUT * 1000)
                    .retryPolicy(new ExponentialBackoffRetry(50, 10, 1000))
                    .build();
            opened.start();
            if (!opened.blockUntilConnected(TIMEOUT, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not connected");
            }
            use(opened);
            return session();
        }

        private void use(CuratorFramework opened) {
            client = opened;
            semaphores = new CuratorAgentSemaphores(client, name, events);
            recipes = new CuratorAgentRecipes(client, name, events);
            discovery = new CuratorAgentDiscovery(client);
        }

        /** Id and password, in hexadecimal digits. */
        private Object session() throws Exception {
            StringBuilder password = new StringBuilder();
            for (byte octet : client.getZookeeperClient().getZooKeeper().getSessionPasswd()) {
                password.append(String.format("%02x", octet));
            }
            return String.format("%x %s", client.getZookeeperClient().getZooKeeper().getSessionId(), password);
        }

        // Locks. Each is known by its kind and path, so that it can be released.

        private InterProcessLock lock(String kind, String path) {
            return locks.computeIfAbsent(kind + " " + path, unused -> switch (kind) {
                case "mutex" -> new Mutex(client, path, name);
                case "read" -> readWrite(path).readLock();
                case "write" -> readWrite(path).writeLock();
                case "semaphore-mutex" -> new InterProcessSemaphoreMutex(client, path);
                case "multi" -> new InterProcessMultiLock(client, List.of(path.split(",")));
                default -> throw new IllegalArgumentException(kind);
            });
        }

        private InterProcessReadWriteLock readWrite(String path) {
            return readWriteLocks.computeIfAbsent(
                    path, unused -> new InterProcessReadWriteLock(client, path, name.getBytes(StandardCharsets.UTF_8)));
        }

        /** The names of the nodes in the queue, in its order. */
        private Object participants(String kind, String path) throws Exception {
            if (kind.equals("semaphore")) {
                // These are names, not paths.
                return semaphores.participants(path);
            }
            Collection<String> paths = ((InterProcessMutex) lock(kind, path)).getParticipantNodes();
            return paths.stream().map(ZKPaths::getNodeFromPath).collect(Collectors.toList());
        }

        /**
         * Acquires and releases a number of times. As a holder, it appends the creation zxid of its node to the log, or 0 if
         * that is unknown: reads the log, and writes it without a version check. Returns how often it has written.
         */
        private Object cycles(String kind, String path, String log, int cycles, long seed) throws Exception {
            Random random = new Random(seed);
            InterProcessLock lock = lock(kind, path);
            for (int cycle = 0; cycle < cycles; cycle++) {
                roundTrips(client, random.nextInt(8));
                if (!lock.acquire(TIMEOUT, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("not acquired");
                }
                String before = read(log);
                roundTrips(client, random.nextInt(3));
                client.setData().forPath(log, (before + " " + created(lock)).getBytes(StandardCharsets.UTF_8));
                lock.release();
            }
            return cycles;
        }

        /** As {@code cycles}, with a read-write lock. A reader reads the log twice: only a concurrent writer changes it. */
        private Object readWriteCycles(String path, String log, int cycles, long seed) throws Exception {
            Random random = new Random(seed);
            int writes = 0;
            for (int cycle = 0; cycle < cycles; cycle++) {
                if (random.nextBoolean()) {
                    cycles("write", path, log, 1, random.nextLong());
                    writes++;
                    continue;
                }
                InterProcessLock read = lock("read", path);
                roundTrips(client, random.nextInt(8));
                if (!read.acquire(TIMEOUT, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("not acquired");
                }
                String before = read(log);
                roundTrips(client, 1 + random.nextInt(3));
                if (!before.equals(read(log))) {
                    throw new IllegalStateException("a writer beside a reader");
                }
                read.release();
            }
            return writes;
        }

        private String read(String path) throws Exception {
            return new String(client.getData().forPath(path), StandardCharsets.UTF_8);
        }

        /** The creation zxid of the node of a held lock, or 0. */
        private long created(InterProcessLock lock) throws Exception {
            if (lock instanceof InterProcessMutex mutex) {
                for (String node : mutex.getParticipantNodes()) {
                    if (read(node).equals(name)) {
                        return client.checkExists().forPath(node).getCzxid();
                    }
                }
            }
            return 0;
        }
    }

    static void roundTrips(CuratorFramework client, int number) throws Exception {
        for (int i = 0; i < number; i++) {
            client.checkExists().forPath("/");
        }
    }

    /** A mutex whose nodes contain the session's name. */
    private static final class Mutex extends InterProcessMutex {
        private final String name;

        Mutex(CuratorFramework client, String path, String name) {
            super(client, path);
            this.name = name;
        }

        @Override
        protected byte[] getLockNodeBytes() {
            return name.getBytes(StandardCharsets.UTF_8);
        }
    }
}
