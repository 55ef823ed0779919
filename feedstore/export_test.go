package feedstore

// MaxTombstones is how many deleted feeds are remembered.
const MaxTombstones = maxTombstones

// See lets the tracker of a reader see a version of a feed.
func (r *Reader) See(name, version string) { r.trackers.current.saw(name, version, nil) }
