import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;

/**
 * A worker with Java Curator's cache of the nodes that our workers write to. It only reads.
 *
 * The history contains the events that the cache's listener receives, in that order, and the content of the cache when
 * the conductor requests it.
 */
final class CuratorCaches implements CuratorCacheListener {
    private static final String PART = "curator-cache";
    private static final String LOOK = "look ";

    private final CuratorRun run;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        CuratorRun run = new CuratorRun(input.readLine());
        CuratorFramework client = run.client().build();
        client.getConnectionStateListenable().addListener((same, state) -> {
            if (state.isConnected()) {
                run.newSession(client, null);
            }
        });
        CuratorCache cache = CuratorCache.build(client, run.cached());
        cache.listenable().addListener(new CuratorCaches(run));
        client.start();
        cache.start();
        try {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                if (line.startsWith(LOOK)) {
                    look(run, cache, line.substring(LOOK.length()));
                }
            }
        } catch (IOException gone) {
            // The same as the end of the input.
        }
        cache.close();
        client.close();
        System.exit(0);
    }

    private CuratorCaches(CuratorRun run) {
        this.run = run;
    }

    private static void look(CuratorRun run, CuratorCache cache, String number) {
        long asked = run.now();
        String nodes = cache.stream().map(CuratorCaches::node).collect(Collectors.joining(","));
        record(run, "snapshot", "\"asked\":" + asked + ",\"look\":" + number + ",\"nodes\":[" + nodes + "]");
    }

    @Override
    public void event(Type type, ChildData old, ChildData now) {
        switch (type) {
            case NODE_CREATED -> record(run, "created", "\"node\":" + node(now));
            case NODE_CHANGED -> record(run, "changed", "\"old\":" + node(old) + ",\"node\":" + node(now));
            case NODE_DELETED -> record(run, "deleted", "\"node\":" + node(old));
        }
    }

    @Override
    public void initialized() {
        run.write("\"what\":\"cache\",\"part\":\"" + PART + "\",\"cache\":\"ready\"");
    }

    private static void record(CuratorRun run, String what, String fields) {
        run.write("\"what\":\"cache\",\"part\":\"" + PART + "\",\"cache\":\"" + what + "\"," + fields);
    }

    private static String node(ChildData node) {
        byte[] data = node.getData() == null ? new byte[0] : node.getData();
        return "{\"path\":\"" + node.getPath() + "\",\"czxid\":" + node.getStat().getCzxid() + ",\"mzxid\":"
                + node.getStat().getMzxid() + ",\"data\":\"" + new String(data, StandardCharsets.UTF_8) + "\"}";
    }
}
