import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.zookeeper.data.Stat;

/**
 * Registers an instance by Java Curator's service discovery. Our caches watch it.
 *
 * What goes into the history is in which session a server says that the node is.
 */
final class CuratorServices {
    private static final String PART = "curator-service";
    private static final String SERVICES = "/jepsen-services";

    /** In milliseconds, as for our own workers. */
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
        // The same id in each life.
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
            // Nothing is asked of services.
        }
        saw(run, "leaving", "");
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
                        saw(run, "registered", ",\"session\":" + session + ",\"before\":" + before);
                    }
                } catch (InterruptedException end) {
                    throw end;
                } catch (Exception noAnswer) {
                    // Nothing is known then.
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

    private static void saw(CuratorRun run, String what, String fields) {
        run.write("\"what\":\"service\",\"part\":\"" + PART + "\",\"service\":\"" + what + "\"" + fields);
    }
}
