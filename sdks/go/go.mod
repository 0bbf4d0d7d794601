module github.com/codeq/codeq/sdks/go

go 1.22
