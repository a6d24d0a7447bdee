import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Does what docs/producers.md says about the embedded broker, and prints what works. */
class Gaps {
    static void attempt(String name, Callable<Boolean> does) {
        boolean works;
        try {
            works = does.call();
        } catch (Exception e) {
            works = false;
        }
        System.out.println("gap: " + name + " " + (works ? "works" : "does not work"));
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", args[0]);
        var topic = new NewTopic("gaps", 1, (short) 1).configs(Map.of("message.timestamp.type", "LogAppendTime"));
        try (var admin = Admin.create(config)) {
            attempt("createTopics", () -> admin.createTopics(List.of(topic)).all().get() == null);
            attempt("describeTopics", () -> admin.describeTopics(List.of("orders")).allTopicNames().get().size() == 1);
            attempt("the topic", () -> admin.listTopics().names().get().contains("gaps"));
        }
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            var old = new ProducerRecord<>("gaps", null, 1_000L, "key", "value");
            attempt("LogAppendTime", () -> producer.send(old).get().timestamp() != 1_000L);
        }
        var transactional = new java.util.HashMap<>(config);
        transactional.put("transactional.id", "gaps");
        try (var producer = new KafkaProducer<>(transactional, new StringSerializer(), new StringSerializer())) {
            attempt("transactions", () -> {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("gaps", "key", "value")).get();
                producer.commitTransaction();
                return true;
            });
        }
    }
}
