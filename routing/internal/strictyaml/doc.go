// Package strictyaml reads a YAML file strictly: into a small tree whose every
// value knows its place, with getters that report what is wrong there and go
// on, so that a reader of the file gets all its faults at once.
//
// Only plain YAML is taken: one document, no anchors, aliases, merge keys, tags
// or directives. Size, nesting, the number of tokens and of keys in a mapping
// are bounded before the tree is built, so that hostile input is cheap.
package strictyaml
