// SPDX-License-Identifier: Apache-2.0
// Triton's Java client calls the service: java -cp CLIENT.jar Calls.java HOST:PORT FOLDER
// FOLDER has q, k and v, float32 [1,2,24,16]. Prints lines of a name, a tab and what came: bits as
// hexadecimal digits, or the text of an error.
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import triton.client.InferInput;
import triton.client.InferRequestedOutput;
import triton.client.InferResult;
import triton.client.InferenceException;
import triton.client.InferenceServerClient;
import triton.client.InferenceServerClient.InferArguments;
import triton.client.pojo.DataType;

class Calls {
    static final long[] SHAPE = {1, 2, 24, 16};

    static InferInput input(String name, Path folder, boolean bytes) throws Exception {
        var numbers = ByteBuffer.wrap(Files.readAllBytes(folder.resolve(name)))
                .order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
        var data = new float[numbers.remaining()];
        numbers.get(data);
        var made = new InferInput(name, SHAPE, DataType.FP32);
        made.setData(data, bytes);
        return made;
    }

    static List<InferInput> inputs(Path folder, boolean bytes) throws Exception {
        var made = new ArrayList<InferInput>();
        for (var name : List.of("q", "k", "v")) made.add(input(name, folder, bytes));
        return made;
    }

    static void say(String name, String text) {
        System.out.println(name + "\t" + text);
    }

    static void say(String name, InferResult result, String output) {
        var bits = ByteBuffer.allocate(1 << 16).order(ByteOrder.LITTLE_ENDIAN);
        for (float number : result.getOutputAsFloat(output)) bits.putFloat(number);
        say(name, HexFormat.of().formatHex(bits.array(), 0, bits.position()));
    }

    public static void main(String[] arguments) throws Exception {
        var folder = Path.of(arguments[1]);
        try (var client = new InferenceServerClient(arguments[0], 5000, 5000)) {
            for (boolean bytes : new boolean[] {true, false}) {
                var both = List.of(new InferRequestedOutput("output", bytes),
                        new InferRequestedOutput("lse", !bytes));
                var result = client.infer(new InferArguments("attention", inputs(folder, bytes), both)
                        .setRequestId("7").setPriority(1).setTimeout(60_000_000));
                say(bytes ? "bytes" : "numbers", result, "output");
                say(bytes ? "lse numbers" : "lse bytes", result, "lse");
                say("id", result.getResponse().getId());
            }
            say("unasked", client.infer(new InferArguments("attention", inputs(folder, true))
                    .setModelVersion("1")), "output");
            client.setRetryCnt(1);
            try {
                client.infer("attention", inputs(folder, true), List.of(new InferRequestedOutput("map")));
            } catch (InferenceException refused) {
                say("error", refused.getMessage());
            }
        }
    }
}
