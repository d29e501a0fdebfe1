import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;

/** Curator's service discovery, with two kinds of payload. */
final class CuratorAgentDiscovery {
    /** A payload that is an object. */
    public static final class Details {
        public String zone;
        public int weight;

        @Override
        public String toString() {
            return zone + "/" + weight;
        }
    }

    private final CuratorFramework client;
    private final Map<String, ServiceDiscovery<?>> open = new HashMap<>();

    CuratorAgentDiscovery(CuratorFramework client) {
        this.client = client;
    }

    /**
     * Arguments: the base path, {@code text} or {@code details}, the service, the id; for a registration also the payload,
     * and the service type if it is not {@code DYNAMIC}.
     */
    Object run(String verb, String... with) throws Exception {
        boolean isText = with[1].equals("text");
        switch (verb) {
            case "service-register":
                if (isText) {
                    register(String.class, with, with[4]);
                } else {
                    Details details = new Details();
                    details.zone = with[4];
                    details.weight = 7;
                    register(Details.class, with, details);
                }
                return null;
            case "service-find":
                return isText ? find(String.class, with) : find(Details.class, with);
            case "service-offered":
                return offered(with);
            case "service-close":
                open.remove(with[0] + with[1]).close();
                return null;
            default:
                throw new IllegalArgumentException(verb);
        }
    }

    private <T> void register(Class<T> type, String[] with, T payload) throws Exception {
        discovery(type, with).registerService(ServiceInstance.<T>builder()
                .name(with[2])
                .id(with[3])
                .address("10.0.0.1")
                .port(8080)
                .payload(payload)
                .serviceType(with.length > 5 ? ServiceType.valueOf(with[5]) : ServiceType.DYNAMIC)
                .uriSpec(new UriSpec("{scheme}://{address}:{port}"))
                .build());
    }

    /** For each instance: id, address, port, type, whether it is enabled, its URI and its payload. */
    private <T> Collection<String> find(Class<T> type, String[] with) throws Exception {
        List<String> found = new ArrayList<>();
        for (ServiceInstance<T> one : discovery(type, with).queryForInstances(with[2])) {
            found.add(String.join(
                    ",",
                    one.getId(),
                    one.getAddress(),
                    String.valueOf(one.getPort()),
                    String.valueOf(one.getServiceType()),
                    String.valueOf(one.isEnabled()),
                    String.valueOf(one.getUriSpec() == null ? null : one.buildUriSpec()),
                    String.valueOf(one.getPayload())));
        }
        found.sort(null);
        return found;
    }

    /** The ids of the instances that a provider offers. */
    private Collection<String> offered(String[] with) throws Exception {
        List<String> offered = new ArrayList<>();
        try (ServiceProvider<String> provider =
                discovery(String.class, with).serviceProviderBuilder().serviceName(with[2]).build()) {
            provider.start();
            for (ServiceInstance<String> one : provider.getAllInstances()) {
                offered.add(one.getId());
            }
        }
        offered.sort(null);
        return offered;
    }

    @SuppressWarnings("unchecked")
    private <T> ServiceDiscovery<T> discovery(Class<T> type, String[] with) throws Exception {
        ServiceDiscovery<?> discovery = open.get(with[0] + with[1]);
        if (discovery == null) {
            discovery = ServiceDiscoveryBuilder.builder(type).client(client).basePath(with[0]).build();
            discovery.start();
            open.put(with[0] + with[1], discovery);
        }
        return (ServiceDiscovery<T>) discovery;
    }
}
