package interop;

import com.github.mizosoft.methanol.MediaType;
import com.github.mizosoft.methanol.MultipartBodyPublisher;
import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest.BodyPublishers;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;

/**
 * Reads entities from standard input until an empty line, puts PER-PAGE of them on a page, and serves them as a feed
 * under /feed and as a snapshot under /snapshot. Prints its base URL. Ends with its standard input. It writes what is
 * allowed, or seen with others, and feedctl does not write: links without brackets, no line break at the end, fields in
 * alphabetical order, a createdAt with a fraction, snapshot pages without Last-Modified.
 *
 * <pre>   Producer PER-PAGE</pre>
 */
public final class Producer {
  private record Document(Map<String, List<String>> header, byte[] body) {}

  private final Map<String, Document> documents = new TreeMap<>();
  private final HttpServer server;
  private final String base;

  private Producer() throws IOException {
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    base = "http://127.0.0.1:" + server.getAddress().getPort();
    server.createContext("/", this::answer);
  }

  public static void main(String[] args) throws Exception {
    int perPage = Integer.parseInt(args[0]);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    List<Entity> entities = new ArrayList<>();
    for (String line = in.readLine(); line != null && !line.isEmpty(); line = in.readLine()) {
      entities.add(new Gson().fromJson(line, Entity.class));
    }
    Producer producer = new Producer();
    List<List<Entity>> pages = new ArrayList<>();
    for (int i = 0; i < entities.size(); i += perPage) {
      pages.add(entities.subList(i, Math.min(i + perPage, entities.size())));
    }
    producer.feed(pages);
    producer.snapshot(pages);
    producer.server.start();
    System.out.println(producer.base);
    while (in.read() >= 0) {
      // until the parent closes the pipe
    }
    producer.server.stop(0);
  }

  private void feed(List<List<Entity>> pages) {
    for (int i = 0; i < pages.size(); i++) {
      List<String> links = new ArrayList<>();
      links.add(link(i, "self"));
      if (i > 0) {
        links.add(link(i - 1, "prev"));
      }
      if (i + 1 < pages.size()) {
        links.add(link(i + 1, "next"));
      }
      Document page = page(pages.get(i), true);
      page.header.put("Link", links);
      documents.put("/feed/" + i, page);
      documents.put("/feed", page);
    }
  }

  private void snapshot(List<List<Entity>> pages) {
    List<String> urls = new ArrayList<>();
    for (int i = 0; i < pages.size(); i++) {
      Document page = page(pages.get(i), false);
      page.header.remove("Last-Modified"); // as the Java library leaves it out
      documents.put("/snapshot/" + i, page);
      urls.add(base + "/snapshot/" + i);
    }
    JsonObject index = new JsonObject();
    index.addProperty("id", "1");
    index.addProperty("createdAt", "2024-01-01T00:00:00.789Z");
    index.add("pages", new Gson().toJsonTree(urls));
    Map<String, List<String>> header = new LinkedHashMap<>();
    header.put("Content-Type", List.of("application/json"));
    documents.put("/snapshot", new Document(header, index.toString().getBytes(StandardCharsets.UTF_8)));
  }

  private String link(int page, String relation) {
    String url = base + "/feed/" + page;
    // Every other page has links without brackets, as in the specification's own example.
    return (page % 2 == 0 ? url : "<" + url + ">") + ";rel=" + relation;
  }

  private static Document page(List<Entity> entities, boolean feed) {
    MultipartBodyPublisher.Builder page =
        MultipartBodyPublisher.newBuilder().mediaType(MediaType.parse("multipart/mixed"));
    for (Entity entity : entities) {
      Map<String, List<String>> header = new LinkedHashMap<>();
      header.put("Last-Modified", List.of(entity.lastModified()));
      header.put("Content-Type", List.of(entity.contentType()));
      if (feed) {
        header.put("Content-ID", List.of(entity.contentId()));
        header.put("Operation-Type", List.of(entity.operation()));
      }
      if (entity.contentLocation() != null) {
        header.put("Content-Location", List.of(entity.contentLocation()));
      }
      page.part(MultipartBodyPublisher.Part.create(
          HttpHeaders.of(header, (name, value) -> true),
          BodyPublishers.ofByteArray(Base64.getDecoder().decode(entity.body()))));
    }
    Map<String, List<String>> header = new LinkedHashMap<>();
    MultipartBodyPublisher body = page.build();
    header.put("Content-Type", List.of(body.mediaType().toString()));
    header.put("Last-Modified", List.of(entities.get(entities.size() - 1).lastModified()));
    return new Document(header, withoutLineBreak(bytes(body)));
  }

  /** Nothing follows the closing delimiter, not even a line break. */
  private static byte[] withoutLineBreak(byte[] page) {
    int end = page.length;
    while (page[end - 1] == '\r' || page[end - 1] == '\n') {
      end--;
    }
    return Arrays.copyOf(page, end);
  }

  private static byte[] bytes(MultipartBodyPublisher publisher) {
    CompletableFuture<byte[]> done = new CompletableFuture<>();
    publisher.subscribe(new Flow.Subscriber<>() {
      private final ByteArrayOutputStream out = new ByteArrayOutputStream();

      @Override
      public void onSubscribe(Flow.Subscription subscription) {
        subscription.request(Long.MAX_VALUE);
      }

      @Override
      public void onNext(ByteBuffer buffer) {
        byte[] chunk = new byte[buffer.remaining()];
        buffer.get(chunk);
        out.writeBytes(chunk);
      }

      @Override
      public void onError(Throwable error) {
        done.completeExceptionally(error);
      }

      @Override
      public void onComplete() {
        done.complete(out.toByteArray());
      }
    });
    return done.join();
  }

  private void answer(HttpExchange exchange) throws IOException {
    try (exchange) {
      Document document = documents.get(exchange.getRequestURI().getPath());
      if (document == null) {
        exchange.sendResponseHeaders(404, -1);
        return;
      }
      Headers header = exchange.getResponseHeaders();
      document.header.forEach((name, values) -> values.forEach(value -> header.add(name, value)));
      if (exchange.getRequestMethod().equals("HEAD")) {
        header.set("Content-Length", Integer.toString(document.body.length));
        exchange.sendResponseHeaders(200, -1);
        return;
      }
      exchange.sendResponseHeaders(200, document.body.length);
      exchange.getResponseBody().write(document.body);
    }
  }
}
