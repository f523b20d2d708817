package claudecode_test

func proxy() int { return 99 }
