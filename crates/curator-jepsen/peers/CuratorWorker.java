import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.data.Stat;

/**
 * The work of `curator-jepsen worker` in the variant `plain`, with Java Curator's mutex.
 *
 * The first line of standard input is a `Work` as JSON (src/work.rs), and the end of the input tells it to finish. It writes
 * the history that src/history.rs describes, and its sets are in the store of src/store_protocol.rs. As most users do, it
 * asks nobody between acquire and release whether it still has the lock; what Curator would answer goes into the history.
 */
public final class CuratorWorker {
    private static final String PART = "curator-plain";
    private static final String PATH = "/jepsen/" + PART;

    // In milliseconds, as for our own workers.
    private static final int STORE_TIMEOUT = 10_000;
    private static final int SAMPLE_PERIOD = 20;
    private static final int REST = 200;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        CuratorWorker worker = new CuratorWorker(input.readLine());
        Thread work = Thread.currentThread();
        Thread end = new Thread(() -> {
            try {
                while (input.readLine() != null) {}
            } catch (IOException gone) {
                // That is an end, too.
            }
            worker.finish(work);
        });
        end.setDaemon(true);
        end.start();
        worker.run();
        System.exit(0);
    }

    /** With the path of the node that it holds, and data of our own. */
    private final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client) {
            super(client, PATH);
        }

        @Override
        protected byte[] getLockNodeBytes() {
            return name.getBytes(StandardCharsets.UTF_8);
        }

        /** The number of the transaction that has made the node, or null. */
        Long token() {
            try {
                Stat stat = client.checkExists().forPath(getLockPath());
                return stat == null ? null : stat.getCzxid();
            } catch (Exception unknown) {
                return null;
            }
        }
    }

    private final int worker;
    private final int life;
    private final String name;
    private final long began;
    private final long setNanos;
    private final int thinkMillis;
    private final long boottimeOffset;
    private final FileOutputStream history;
    private final Store store;
    private final CuratorFramework client;
    private final Mutex mutex;
    private final Random random = new Random();
    /** The first lock can come before the news that there is a connection. */
    private volatile ConnectionState state = ConnectionState.CONNECTED;
    private volatile boolean finishing;
    private boolean acquiring;
    private long session;
    private int holds;

    private CuratorWorker(String work) throws IOException {
        worker = (int) number(work, "worker");
        life = (int) number(work, "life");
        name = "w" + worker + "." + life;
        began = number(work, "began");
        setNanos = number(work, "set_ms") * 1_000_000;
        thinkMillis = (int) number(work, "think_ms");
        boottimeOffset = number(work, "boottime_offset");
        history = new FileOutputStream(text(work, "history"), true);
        store = new Store(text(work, "store"));
        client = CuratorFrameworkFactory.builder()
                .connectString(text(work, "connect_string"))
                .sessionTimeoutMs((int) number(work, "session_timeout_ms"))
                .retryPolicy(new RetryForever(100))
                .build();
        mutex = new Mutex(client);
        client.getConnectionStateListenable().addListener((same, newState) -> {
            state = newState;
            if (newState.isConnected()) {
                newSession();
            }
        });
    }

    // Work.

    private void run() throws Exception {
        client.start();
        Thread sampling = new Thread(this::sample);
        sampling.setDaemon(true);
        sampling.start();
        while (!finishing) {
            long rest = step() ? 0 : REST;
            // A finishing worker need not wait for this.
            Thread.sleep(rest + think());
        }
        client.close();
    }

    /** Ends an acquire that is waiting. */
    private synchronized void finish(Thread work) {
        finishing = true;
        if (acquiring) {
            work.interrupt();
        }
    }

    private synchronized boolean startAcquiring() {
        acquiring = !finishing;
        return acquiring;
    }

    /** From here on, nobody interrupts. */
    private synchronized void acquired() {
        acquiring = false;
        Thread.interrupted();
    }

    private boolean step() {
        long asked = now();
        if (!startAcquiring()) {
            return true;
        }
        Exception failure = null;
        try {
            mutex.acquire();
        } catch (Exception error) {
            failure = error;
        } finally {
            acquired();
        }
        if (failure != null) {
            String error = finishing ? "null" : quoted(failure);
            write("\"what\":\"not-acquired\",\"part\":\"" + PART + "\",\"asked\":" + asked + ",\"error\":" + error);
            return false;
        }
        int hold = holds++;
        Long token = mutex.token();
        write("\"what\":\"acquired\",\"hold\":" + hold + ",\"part\":\"" + PART + "\",\"owner\":\"" + name + "\",\"asked\":"
                + asked + ",\"session\":" + newSession() + ",\"claims\":[{\"resource\":\"" + PATH
                + "\",\"weight\":1,\"capacity\":1,\"token\":" + token + ",\"place\":" + token + "}],\"reentry\":false");
        beginSampling(hold);
        update(hold);
        endSampling();
        write("\"what\":\"releasing\",\"hold\":" + hold);
        String error = "null";
        try {
            mutex.release();
        } catch (Exception e) {
            error = quoted(e);
        }
        write("\"what\":\"released\",\"hold\":" + hold + ",\"error\":" + error);
        return error.equals("null");
    }

    private void update(int hold) {
        String set = PART + "/" + (now() - began) / setNanos;
        List<String> elements = new ArrayList<>();
        try {
            String answer = store.ask("{\"do\":\"read\",\"set\":\"" + set + "\",\"token\":null}");
            Matcher element = Pattern.compile("\"([^\"]*)\"").matcher(answer.substring(answer.indexOf('[')));
            while (element.find()) {
                elements.add(element.group(1));
            }
        } catch (IOException | RuntimeException nothingRead) {
            return;
        }
        String element = name + "." + hold;
        elements.add(element);
        pause(think());
        long checked = now();
        String outcome;
        try {
            String answer = store.ask("{\"do\":\"write\",\"set\":\"" + set + "\",\"elements\":[\""
                    + String.join("\",\"", elements) + "\"],\"token\":null}");
            outcome = answer.contains("\"written\"") ? "acknowledged" : "refused";
        } catch (IOException noAnswer) {
            outcome = "unknown";
        }
        write("\"what\":\"wrote\",\"hold\":" + hold + ",\"part\":\"" + PART + "\",\"set\":\"" + set + "\",\"element\":\""
                + element + "\",\"checked\":" + checked + ",\"until\":0,\"outcome\":\"" + outcome + "\"");
    }

    private long think() {
        return random.nextInt(thinkMillis + 1);
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException early) {
            Thread.currentThread().interrupt();
        }
    }

    // What the client believes, until it once does not.

    private Integer held;

    private synchronized void beginSampling(int hold) {
        held = hold;
        ask();
    }

    private synchronized void endSampling() {
        ask();
        held = null;
    }

    private synchronized void ask() {
        if (held == null) {
            return;
        }
        long before = now();
        if (mutex.isAcquiredInThisProcess() && state.isConnected()) {
            write("\"what\":\"valid\",\"hold\":" + held + ",\"before\":" + before + ",\"until\":0");
        } else {
            write("\"what\":\"invalid\",\"hold\":" + held);
            held = null;
        }
    }

    private void sample() {
        while (true) {
            pause(SAMPLE_PERIOD);
            ask();
        }
    }

    // The history.

    private long now() {
        return System.nanoTime() + boottimeOffset;
    }

    /** One write of one line, and lines in the order of their times. */
    private void write(String what) {
        synchronized (history) {
            String line = "{\"at\":" + now() + ",\"worker\":" + worker + ",\"life\":" + life + "," + what + "}\n";
            try {
                history.write(line.getBytes(StandardCharsets.UTF_8));
            } catch (IOException error) {
                System.err.println("CuratorWorker: cannot write the history: " + error);
                Runtime.getRuntime().halt(1);
            }
        }
    }

    /** Writes down a session that was not there before. Returns the current one. */
    private long newSession() {
        synchronized (history) {
            try {
                long current = client.getZookeeperClient().getZooKeeper().getSessionId();
                if (current != session && current != 0) {
                    session = current;
                    write("\"what\":\"session\",\"session\":" + session);
                }
            } catch (Exception none) {
                // The next state change tells.
            }
            return session;
        }
    }

    // A little JSON. Paths and names have nothing in them that would have to be escaped.

    private static long number(String json, String key) {
        return Long.parseLong(found(json, key, "(-?\\d+)"));
    }

    private static String text(String json, String key) {
        return found(json, key, "\"([^\"\\\\]*)\"");
    }

    private static String found(String json, String key, String value) {
        Matcher matcher = Pattern.compile("\"" + key + "\":\\s*" + value).matcher(json);
        if (!matcher.find()) {
            throw new IllegalArgumentException("the work has no " + key + ": " + json);
        }
        return matcher.group(1);
    }

    private static String quoted(Exception error) {
        return "\"" + error.toString().replaceAll("[\\\\\"\\p{Cntrl}]", " ") + "\"";
    }

    /** Requests one by one. A connection whose answer was not awaited is not used again. */
    private static final class Store {
        private final InetSocketAddress address;
        private Socket socket;
        private BufferedReader answers;

        Store(String address) {
            int colon = address.lastIndexOf(':');
            this.address = new InetSocketAddress(
                    address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        }

        String ask(String request) throws IOException {
            if (socket == null) {
                Socket connecting = new Socket();
                connecting.connect(address, STORE_TIMEOUT);
                connecting.setSoTimeout(STORE_TIMEOUT);
                connecting.setTcpNoDelay(true);
                answers = new BufferedReader(new InputStreamReader(connecting.getInputStream(), StandardCharsets.UTF_8));
                socket = connecting;
            }
            try {
                socket.getOutputStream().write((request + "\n").getBytes(StandardCharsets.UTF_8));
                String answer = answers.readLine();
                if (answer != null) {
                    return answer;
                }
            } catch (IOException error) {
                close();
                throw error;
            }
            close();
            throw new IOException("the store has gone");
        }

        private void close() throws IOException {
            Socket old = socket;
            socket = null;
            old.close();
        }
    }
}
