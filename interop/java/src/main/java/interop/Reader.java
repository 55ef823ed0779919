package interop;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Instant;

/**
 * Reads a feed or a snapshot and prints its entities.
 *
 * <pre>
 *   Reader feed URL                             from the beginning
 *   Reader feed URL LAST-MODIFIED CONTENT-ID    after this entity
 *   Reader snapshot URL
 * </pre>
 */
public final class Reader {
  private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().create();

  private final HttpClient client = HttpClient.newHttpClient();
  private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);

  private Reader() {}

  public static void main(String[] args) throws Exception {
    Reader reader = new Reader();
    URI url = URI.create(args[1]);
    switch (args[0] + args.length) {
      case "feed2" -> reader.feed(url, null, null);
      case "feed4" -> reader.feed(url, Page.time(args[2]), args[3]);
      case "snapshot2" -> reader.snapshot(url);
      default -> throw new IllegalArgumentException("usage: feed URL [LAST-MODIFIED CONTENT-ID] | snapshot URL");
    }
    reader.out.flush();
  }

  /** The algorithm of the specification: crawl back by time with HEAD, then walk forward. */
  private void feed(URI entry, Instant since, String contentId) throws IOException, InterruptedException {
    Page newest = Page.head(client, entry);
    Page page = newest;
    while (page.prev != null && (since == null || !page.lastModified.isBefore(since))) {
      Page older = Page.head(client, page.prev);
      if (!page.self.equals(older.next)) {
        throw new IOException(older.self + ": next is " + older.next + ", not " + page.self);
      }
      if (older.lastModified.isAfter(page.lastModified)) {
        throw new IOException(older.self + ": newer than the page after it");
      }
      if (newest.last != null && !newest.last.equals(older.last)) {
        throw new IOException(older.self + ": last is " + older.last + ", not " + newest.last);
      }
      page = older;
    }
    shortcuts(newest, page, since);
    if (since != null && !page.lastModified.isBefore(since)) {
      throw new IOException(entry + ": no page is strictly older than " + since);
    }
    Skip skip = new Skip(since, contentId);
    for (URI url = page.self; url != null; url = page.next) {
      HttpResponse<InputStream> response = Page.get(client, url);
      page = Page.of(response);
      try (InputStream body = response.body()) {
        Multipart.read(body, page.contentType, entity -> {
          if (entity.contentId() == null || entity.operation() == null) {
            throw new IllegalStateException("entity without Content-ID or Operation-Type: " + entity);
          }
          if (skip.past(entity)) {
            out.println(GSON.toJson(entity));
          }
        });
      }
    }
    if (!skip.done) {
      throw new IOException(entry + ": " + contentId + " is not in the feed");
    }
  }

  /** If the newest page has links to where the crawl would end, they must lead there. */
  private void shortcuts(Page newest, Page start, Instant since) throws IOException, InterruptedException {
    if (since == null && newest.first != null && !newest.first.equals(start.self)) {
      throw new IOException(newest.self + ": first is " + newest.first + ", but the oldest page is " + start.self);
    }
    if (since != null && newest.timegate != null) {
      URI at = Page.at(client, newest.timegate, since);
      if (!at.equals(start.self)) {
        throw new IOException(newest.timegate + " leads to " + at + ", but the last page before " + since + " is " + start.self);
      }
    }
  }

  private void snapshot(URI url) throws IOException, InterruptedException {
    JsonObject index;
    HttpResponse<InputStream> response = Page.get(client, url);
    try (InputStream body = response.body()) {
      index = JsonParser.parseString(new String(body.readAllBytes(), StandardCharsets.UTF_8)).getAsJsonObject();
    }
    Instant.parse(index.get("createdAt").getAsString());
    index.get("id").getAsString();
    for (JsonElement element : index.getAsJsonArray("pages")) {
      URI pageUrl = URI.create(element.getAsString());
      if (!pageUrl.isAbsolute()) {
        throw new IOException(url + ": page is not an absolute URL: " + pageUrl);
      }
      HttpResponse<InputStream> page = Page.get(client, pageUrl);
      Page.time(Page.required(pageUrl, page.headers(), "Last-Modified"));
      try (InputStream body = page.body()) {
        Multipart.read(body, Page.required(pageUrl, page.headers(), "Content-Type"),
            entity -> out.println(GSON.toJson(entity)));
      }
    }
  }

  /** Tells whether an entity is after the position that the reader started from. */
  private static final class Skip {
    private final Instant since;
    private final String contentId;
    private boolean done;

    Skip(Instant since, String contentId) {
      this.since = since;
      this.contentId = contentId;
      this.done = contentId == null;
    }

    boolean past(Entity entity) {
      if (done) {
        return true;
      }
      if (Page.time(entity.lastModified()).isAfter(since)) {
        throw new IllegalStateException(contentId + " is not in the feed, met " + entity.contentId());
      }
      done = entity.contentId().equals(contentId);
      return false;
    }
  }
}
