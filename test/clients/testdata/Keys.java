import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes the same keys straight to one topic and, with a delay, to another one. */
class Keys {
    static final Random RANDOM = new Random(4711);

    /** A key of each kind in turn. */
    static byte[] key(int i) {
        switch (i % 5) {
            case 0:
                return null;
            case 1:
                return ("order-" + i).getBytes(StandardCharsets.US_ASCII);
            case 2:
                return ("Bestellung №" + i + " – 注文 🛒").getBytes(StandardCharsets.UTF_8);
            case 3:
                byte[] binary = new byte[RANDOM.nextInt(40)]; // also of no length
                RANDOM.nextBytes(binary);
                return binary;
            default:
                return i % 10 == 4 ? new byte[0] : ByteBuffer.allocate(8).putLong(i).array();
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", args[0]);
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < Integer.parseInt(args[1]); i++) {
                byte[] key = key(i);
                byte[] value = Integer.toString(i).getBytes();
                producer.send(new ProducerRecord<>("straight", key, value));
                producer.send(delayed(key, value, ByteBuffer.allocate(8).putLong(2000).array()));
            }
            // Four printable bytes are text, and this is no number.
            producer.send(delayed(null, "refused".getBytes(), ByteBuffer.allocate(4).putInt(0x20202020).array()));
        }
    }

    static ProducerRecord<byte[], byte[]> delayed(byte[] key, byte[] value, byte[] ms) {
        var record = new ProducerRecord<>("keys-delay", key, value);
        record.headers().add("target-topic", "keys".getBytes()).add("delay-ms", ms);
        return record;
    }
}
