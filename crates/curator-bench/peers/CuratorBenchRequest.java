import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The values of a request line, by their keys. */
final class CuratorBenchRequest {
    final Map<String, String> values = new HashMap<>();

    CuratorBenchRequest(String[] words) {
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
            throw new IllegalArgumentException("the request has no " + key);
        }
        return value;
    }

    int number(String key) {
        return Integer.parseInt(text(key));
    }

    /** The paths {@code <path>/0}, {@code <path>/1} and so on. */
    List<String> paths(int count) {
        List<String> paths = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            paths.add(text("path") + "/" + i);
        }
        return paths;
    }

    long nanoseconds() {
        return (long) (Double.parseDouble(text("seconds")) * 1e9);
    }

    /** When to start, in milliseconds since 1970; 0 if the request names no time. */
    long start() {
        return Long.parseLong(values.getOrDefault("start", "0"));
    }
}
