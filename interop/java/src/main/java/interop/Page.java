package interop;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A page as its HTTP header describes it. It takes nothing but the plainest form of each field: one link to a field,
 * an absolute URL, exactly one relation. Peers that are as strict exist. Links that the specification does not define
 * are extensions: a page need not have them.
 */
final class Page {
  private static final Pattern LINK = Pattern.compile("<(https?://[^>]+)>;\\s*rel=\"?([a-z]+)\"?(;\\s*type=\"[^\"]+\")?");

  final URI self;
  final URI prev;
  final URI next;
  final URI first;
  final URI last;
  final URI timegate;
  final Instant lastModified;
  final String contentType;

  private Page(URI url, HttpHeaders header) throws IOException {
    URI self = null;
    URI prev = null;
    URI next = null;
    URI first = null;
    URI last = null;
    URI timegate = null;
    for (String value : header.allValues("Link")) {
      Matcher link = LINK.matcher(value);
      if (!link.matches()) {
        throw new IOException(url + ": not a plain Link: " + value);
      }
      URI target = URI.create(link.group(1));
      switch (link.group(2)) {
        case "self" -> self = target;
        case "prev" -> prev = target;
        case "next" -> next = target;
        case "first" -> first = target;
        case "last" -> last = target;
        case "timegate" -> timegate = target;
        default -> {}
      }
    }
    if (self == null) {
      throw new IOException(url + ": no link to itself");
    }
    this.self = self;
    this.prev = prev;
    this.next = next;
    this.first = first;
    this.last = last;
    this.timegate = timegate;
    this.lastModified = time(required(url, header, "Last-Modified"));
    this.contentType = required(url, header, "Content-Type");
  }

  static Page head(HttpClient client, URI url) throws IOException, InterruptedException {
    HttpRequest request = HttpRequest.newBuilder(url).method("HEAD", HttpRequest.BodyPublishers.noBody()).build();
    return new Page(url, checked(client.send(request, HttpResponse.BodyHandlers.discarding())).headers());
  }

  /** The page that a timegate (RFC 7089) leads to. */
  static URI at(HttpClient client, URI timegate, Instant time) throws IOException, InterruptedException {
    HttpRequest request = HttpRequest.newBuilder(timegate).header("Accept-Datetime",
        DateTimeFormatter.RFC_1123_DATE_TIME.format(time.atZone(ZoneOffset.UTC))).build();
    HttpResponse<Void> response = client.send(request, HttpResponse.BodyHandlers.discarding());
    if (response.statusCode() != 302) {
      throw new IOException(timegate + ": status " + response.statusCode());
    }
    return URI.create(required(timegate, response.headers(), "Location"));
  }

  static HttpResponse<InputStream> get(HttpClient client, URI url) throws IOException, InterruptedException {
    return checked(client.send(HttpRequest.newBuilder(url).build(), HttpResponse.BodyHandlers.ofInputStream()));
  }

  static Page of(HttpResponse<?> response) throws IOException {
    return new Page(response.uri(), response.headers());
  }

  static String required(URI url, HttpHeaders header, String name) throws IOException {
    return header.firstValue(name).orElseThrow(() -> new IOException(url + ": no " + name));
  }

  static Instant time(String value) {
    return ZonedDateTime.parse(value, DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
  }

  private static <T> HttpResponse<T> checked(HttpResponse<T> response) throws IOException {
    if (response.statusCode() != 200) {
      throw new IOException(response.uri() + ": status " + response.statusCode());
    }
    return response;
  }
}
