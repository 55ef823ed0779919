package interop;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Map;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.james.mime4j.MimeException;
import org.apache.james.mime4j.stream.EntityState;
import org.apache.james.mime4j.stream.Field;
import org.apache.james.mime4j.stream.MimeConfig;
import org.apache.james.mime4j.stream.MimeTokenStream;

/** Reads the entities of a page with the parser of Apache James. */
final class Multipart {
  private Multipart() {}

  static void read(InputStream page, String contentType, Consumer<Entity> each) throws IOException {
    MimeConfig config = MimeConfig.custom()
        .setStrictParsing(true)
        .setMaxLineLen(-1)
        .setMaxHeaderLen(-1)
        .setMaxHeaderCount(-1)
        .setMaxContentLen(-1)
        .build();
    MimeTokenStream tokens = new MimeTokenStream(config);
    byte[] whole = page.readAllBytes();
    checkDelimiters(whole, contentType);
    tokens.parseHeadless(new ByteArrayInputStream(whole), contentType);
    try {
      Map<String, String> header = new HashMap<>();
      for (EntityState s = tokens.getState(); s != EntityState.T_END_OF_STREAM; s = tokens.next()) {
        switch (s) {
          case T_START_HEADER -> header.clear();
          case T_FIELD -> {
            Field field = tokens.getField();
            checkText(field.getRaw().toByteArray());
            header.put(field.getName().toLowerCase(Locale.ROOT), field.getBody().strip());
          }
          case T_BODY -> each.accept(entity(header, tokens.getInputStream()));
          default -> {
            // the ends of headers and parts, preamble and epilogue carry nothing
          }
        }
      }
    } catch (MimeException e) {
      throw new IOException("page is not multipart: " + e.getMessage(), e);
    }
  }

  /** A header is UTF-8 without control characters. */
  private static void checkText(byte[] field) throws IOException {
    String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(field)).toString();
    if (text.strip().chars().anyMatch(c -> c < ' ' && c != '\t' || c == 0x7f)) {
      throw new IOException("header field has a control character or is folded: " + text);
    }
  }

  /** Nothing but a line break follows a boundary on its line. */
  private static void checkDelimiters(byte[] page, String contentType) throws IOException {
    Matcher boundary = Pattern.compile("boundary=\"?([^\";]+)\"?").matcher(contentType);
    if (!boundary.find()) {
      throw new IOException("no boundary: " + contentType);
    }
    Pattern padded = Pattern.compile("(?m)^--" + Pattern.quote(boundary.group(1)) + "(--)?[^\\r\\n-]");
    if (padded.matcher(new String(page, StandardCharsets.ISO_8859_1)).find()) {
      throw new IOException("a delimiter is followed by more than a line break");
    }
  }

  private static Entity entity(Map<String, String> header, InputStream body) throws IOException {
    String modified = header.get("last-modified");
    if (modified == null || header.get("content-type") == null) {
      throw new IOException("entity without Last-Modified or Content-Type: " + header);
    }
    MessageDigest sha256;
    try {
      sha256 = MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
    long length = new DigestInputStream(body, sha256).transferTo(java.io.OutputStream.nullOutputStream());
    String announced = header.get("content-length");
    if (announced != null && Long.parseLong(announced) != length) {
      throw new IOException("Content-Length is " + announced + ", the body has " + length + " bytes");
    }
    return new Entity(
        header.get("content-id"),
        header.get("operation-type"),
        header.get("content-type"),
        modified,
        header.get("content-location"),
        null,
        length,
        HexFormat.of().formatHex(sha256.digest()));
  }
}
