module github.com/codeq/codeq/sdks/exam/go

go 1.22

require github.com/codeq/codeq/sdks/go v0.1.0

replace github.com/codeq/codeq/sdks/go => ../../go
