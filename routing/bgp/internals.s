// It is empty. A Go function without a body, such as those that unsent.go borrows
// from GoBGP, needs a file of assembly beside it.
