// SPDX-License-Identifier: Apache-2.0
// Attention of a real sentence: safetensors both ways; the map of head 1, a row per token. Java 17, and
//     java examples/java/Attend.java [address of the daemon, if not in ATTENTION_URL]
import java.io.*;
import java.net.URI;
import java.net.http.*;
import java.nio.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.*;
import java.util.regex.Pattern;

class Attend {
    static final String DATA = "examples/data/sentence.safetensors", USUAL = "http://127.0.0.1:8080";
    static final int HEAD = 1;

    /** The first group of the pattern. */
    static String find(String pattern, byte[] bytes, int from, int length) {
        var found = Pattern.compile(pattern).matcher(new String(bytes, from, length, StandardCharsets.UTF_8));
        return found.find() ? found.group(1) : "this is not attentiond: set ATTENTION_URL";
    }

    static byte[] post(String address) throws IOException, InterruptedException {
        var key = "Bearer " + System.getenv().getOrDefault("ATTENTION_KEY", ""); // where one is asked for
        var request = HttpRequest.newBuilder(URI.create(address + "/v1/attention"))
                .headers("Content-Type", "application/vnd.safetensors", "Authorization", key)
                .POST(HttpRequest.BodyPublishers.ofFile(Path.of(DATA))).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofByteArray());
        if (answer.statusCode() == 200) return answer.body();
        var detail = find("\"detail\":\"((?:[^\"\\\\]|\\\\.)*)\"", answer.body(), 0, answer.body().length);
        throw new IllegalStateException(detail.replaceAll("\\\\(.)", "$1"));
    }

    static void print(ByteBuffer answer) {
        int length = (int) answer.getLong(); // its length stands first, then the header's JSON
        var entry = "\"weights\":\\{[^}]*\"%s\":\\[([0-9,]*)\\]"; // shape: heads, queries, keys
        var shape = find(entry.formatted("shape"), answer.array(), 8, length).split(",");
        var begin = find(entry.formatted("data_offsets"), answer.array(), 8, length).split(",")[0];
        int queries = Integer.parseInt(shape[1]), keys = Integer.parseInt(shape[2]);
        answer.position(8 + length + Integer.parseInt(begin) + 4 * HEAD * queries * keys);
        for (int at = 1; at <= queries * keys; at++)
            System.out.printf(Locale.ROOT, at % keys == 0 ? "%.6f%n" : "%.6f ", answer.getFloat());
    }

    public static void main(String[] arguments) {
        var address = arguments.length > 0 ? arguments[0] : System.getenv().getOrDefault("ATTENTION_URL", USUAL);
        try {
            print(ByteBuffer.wrap(post(address)).order(ByteOrder.LITTLE_ENDIAN));
        } catch (Exception problem) {
            System.err.println("no map: " + (problem instanceof IllegalStateException ? problem.getMessage()
                    : problem instanceof FileNotFoundException
                    ? "there is no " + DATA + " here; run this in the root of the project"
                    : problem instanceof IllegalArgumentException
                    ? address + " is no address: ATTENTION_URL is such as " + USUAL
                    : "nothing answers at " + address + " (" + problem
                    + "); start it with `make run`, or set ATTENTION_URL"));
            System.exit(1);
        }
    }
}
