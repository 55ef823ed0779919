package feedstore

// MaxTombstones is how many deleted feeds are remembered.
const MaxTombstones = maxTombstones

// See makes the tracker of a reader record a version of a feed.
func (r *Reader) See(name, version string) { r.trackers.current.saw(name, version, nil) }
