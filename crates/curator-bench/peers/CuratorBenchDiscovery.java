import java.io.IOException;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;

/** Curator's service discovery: registers instances, and finds them with a {@code ServiceCache} in another session. */
final class CuratorBenchDiscovery {
    private static final String SERVICE = "service";

    private CuratorBenchDiscovery() {}

    static String register(CuratorFramework client, CuratorBenchRequest request, CuratorBenchCrowd.Conductor conductor)
            throws Exception {
        try (ServiceDiscovery<Void> services = discovery(client, request)) {
            conductor.report("held");
            long begin = System.nanoTime();
            register(services, request);
            return loaded(request, begin, conductor);
        }
    }

    static String find(
            CuratorFramework registering,
            CuratorFramework finding,
            CuratorBenchRequest request,
            CuratorBenchCrowd.Conductor conductor)
            throws Exception {
        try (ServiceDiscovery<Void> servers = discovery(registering, request);
                ServiceDiscovery<Void> services = discovery(finding, request)) {
            register(servers, request);
            conductor.report("held");
            long begin = System.nanoTime();
            try (ServiceCache<Void> cache =
                    services.serviceCacheBuilder().name(SERVICE).build()) {
                cache.start();
                int found = cache.getInstances().size();
                if (found != request.number("nodes")) {
                    throw new IllegalStateException("the cache has " + found + " instances");
                }
                return loaded(request, begin, conductor);
            }
        }
    }

    private static void register(ServiceDiscovery<Void> services, CuratorBenchRequest request) throws Exception {
        for (int i = 0; i < request.number("nodes"); i++) {
            services.registerService(ServiceInstance.<Void>builder()
                    .name(SERVICE)
                    .id(String.format("%08d", i))
                    .address("10.0.0.1")
                    .port(8080)
                    .build());
        }
    }

    private static String loaded(CuratorBenchRequest request, long begin, CuratorBenchCrowd.Conductor conductor)
            throws IOException {
        long time = System.nanoTime() - begin;
        conductor.report("loaded nanoseconds=" + time);
        return CuratorBench.done(request.number("nodes"), time);
    }

    private static ServiceDiscovery<Void> discovery(CuratorFramework client, CuratorBenchRequest request) throws Exception {
        ServiceDiscovery<Void> discovery = ServiceDiscoveryBuilder.builder(Void.class)
                .client(client)
                .basePath(request.text("path"))
                .build();
        discovery.start();
        return discovery;
    }
}
