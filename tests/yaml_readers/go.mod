module memory-sidecar/yaml-readers

go 1.21.0

require github.com/goccy/go-yaml v1.19.2
