package interop;

/**
 * An entity as both programs print and read it, one JSON object a line. {@code body} is base64 and only read by the
 * producer; {@code length} and {@code sha256} are only printed by the reader.
 */
record Entity(
    String contentId,
    String operation,
    String contentType,
    String lastModified,
    String contentLocation,
    String body,
    long length,
    String sha256) {}
