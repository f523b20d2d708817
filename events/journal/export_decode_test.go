package journal

// DecodeLines gives the ids that decodeLines finds, "" for what can't be read.
func DecodeLines(data []byte) (ids []string) {
	for _, d := range decodeLines(data) {
		ids = append(ids, d.record.ID)
	}
	return ids
}
