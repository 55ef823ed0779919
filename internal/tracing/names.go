package tracing

// The names of attributes: our own, and those of the semantic conventions of OpenTelemetry. The
// conventions for messaging are still in development and may change. We do not promise to keep the names.
const (
	scope = "github.com/feedctl/feedctl"

	serviceName    = "service.name"
	serviceVersion = "service.version"

	errorType      = "error.type"
	httpMethod     = "http.request.method"
	httpStatus     = "http.response.status_code"
	serverAddress  = "server.address"
	urlPath        = "url.path"
	urlFull        = "url.full"
	userAgent      = "user_agent.original"
	networkVersion = "network.protocol.version"

	messagingSystem      = "messaging.system"
	messagingDestination = "messaging.destination.name"
	messagingOperation   = "messaging.operation.name"
	messagingType        = "messaging.operation.type"
	messagingCount       = "messaging.batch.message_count"

	feedPage    = "feedctl.page"       // number, or URL, of a page
	feedSink    = "feedctl.sink"       // without credentials
	storeKey    = "feedctl.object.key" // of an object in a store
	entityBytes = "feedctl.body.bytes" // of the bodies of a batch
)
