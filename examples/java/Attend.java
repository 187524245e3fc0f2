// SPDX-License-Identifier: Apache-2.0
// Attention of a real sentence: safetensors both ways; the map of head 1, a row per token. Java 17, and
//     java examples/java/Attend.java [address of the daemon, if not in ATTENTION_URL]
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Locale;
import java.util.StringJoiner;
import java.util.regex.Pattern;

class Attend {
    static final Path DATA = Path.of("examples/data/sentence.safetensors");
    static final int HEAD = 1;

    /** The numbers behind a name of the safetensors header, such as those of a tensor's shape. */
    static int[] numbers(String header, String tensor, String member) {
        var found = Pattern.compile("\"" + tensor + "\":\\{[^}]*\"" + member + "\":\\[([0-9,]*)\\]")
                .matcher(header);
        if (!found.find()) throw new IllegalStateException("the answer has no " + tensor);
        return Pattern.compile(",").splitAsStream(found.group(1)).mapToInt(Integer::parseInt).toArray();
    }

    static byte[] post(String address) throws Exception {
        var key = "Bearer " + System.getenv().getOrDefault("ATTENTION_KEY", ""); // where one is asked for
        var request = HttpRequest.newBuilder(URI.create(address + "/v1/attention"))
                .headers("Content-Type", "application/vnd.safetensors", "Authorization", key)
                .POST(HttpRequest.BodyPublishers.ofFile(DATA)).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofByteArray());
        if (answer.statusCode() != 200)
            throw new IllegalStateException(new String(answer.body(), StandardCharsets.UTF_8));
        return answer.body();
    }

    public static void main(String[] arguments) {
        try {
            var usual = System.getenv().getOrDefault("ATTENTION_URL", "http://127.0.0.1:8080");
            var answer = ByteBuffer.wrap(post(arguments.length > 0 ? arguments[0] : usual))
                    .order(ByteOrder.LITTLE_ENDIAN);
            int length = (int) answer.getLong();
            var header = new String(answer.array(), 8, length, StandardCharsets.UTF_8);
            int[] shape = numbers(header, "weights", "shape"); // heads, queries, keys
            answer.position(8 + length + numbers(header, "weights", "data_offsets")[0]
                    + 4 * HEAD * shape[1] * shape[2]);
            for (int query = 0; query < shape[1]; query++) {
                var row = new StringJoiner(" ");
                for (int key = 0; key < shape[2]; key++)
                    row.add(String.format(Locale.ROOT, "%.6f", answer.getFloat()));
                System.out.println(row);
            }
        } catch (Exception problem) {
            System.err.println("no map: " + problem);
            System.exit(1);
        }
    }
}
