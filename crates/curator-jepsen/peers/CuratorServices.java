import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.zookeeper.data.Stat;

/**
 * Registers an instance with Java Curator's service discovery. Our caches watch it.
 *
 * The history contains each confirmation by a server that the instance's node exists, with the session of the node.
 */
final class CuratorServices {
    private static final String PART = "curator-service";
    private static final String SERVICES = "/jepsen-services";

    /** In milliseconds, as in our workers. */
    private static final long PERIOD = 200;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        CuratorRun run = new CuratorRun(input.readLine());
        CuratorFramework client = run.client().build();
        client.getConnectionStateListenable().addListener((same, state) -> {
            if (state.isConnected()) {
                run.newSession(client, null);
            }
        });
        client.start();
        // The id is the same in each life of the process.
        String id = run.name.substring(0, run.name.indexOf('.'));
        ServiceInstance<Void> instance =
                ServiceInstance.<Void>builder().name(PART).id(id).address("127.0.0.1").port(1).build();
        ServiceDiscovery<Void> discovery = ServiceDiscoveryBuilder.builder(Void.class)
                .client(client)
                .basePath(SERVICES)
                .thisInstance(instance)
                .build();
        Thread registered = new Thread(() -> look(run, client, discovery, SERVICES + "/" + PART + "/" + id));
        registered.setDaemon(true);
        registered.start();
        while (input.readLine() != null) {
            // The conductor's requests are for caches only.
        }
        record(run, "leaving", "");
        discovery.close();
        client.close();
        System.exit(0);
    }

    private static void look(CuratorRun run, CuratorFramework client, ServiceDiscovery<Void> discovery, String path) {
        try {
            discovery.start();
            while (true) {
                long session = run.newSession(client, null);
                long before = run.now();
                try {
                    Stat stat = client.checkExists().forPath(path);
                    if (stat != null && stat.getEphemeralOwner() == session) {
                        record(run, "registered", ",\"session\":" + session + ",\"before\":" + before);
                    }
                } catch (InterruptedException end) {
                    throw end;
                } catch (Exception noReply) {
                    // Without a reply, nothing is recorded.
                }
                Thread.sleep(PERIOD);
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        } catch (Exception failure) {
            System.err.println("curator: cannot register: " + failure);
            Runtime.getRuntime().halt(1);
        }
    }

    private static void record(CuratorRun run, String what, String fields) {
        run.write("\"what\":\"service\",\"part\":\"" + PART + "\",\"service\":\"" + what + "\"" + fields);
    }
}
