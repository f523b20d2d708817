package codex_test

func fake() int { return 0 }
