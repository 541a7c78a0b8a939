package main

import (
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	specs "github.com/opencontainers/image-spec/specs-go/v1"
)

// domain is the part of an image's name before what kind gives it.
const domain = "netclass.dev/"

// index returns an image for each of the architectures, as one.
func (r *release) index(k kind, architectures []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		image, err := r.image(k, arch)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return mutate.Annotations(index, r.labels(k)).(v1.ImageIndex), nil
}

func (r *release) image(k kind, arch string) (v1.Image, error) {
	contents, err := k.contents(r, arch)
	if err != nil {
		return nil, err
	}
	layer, err := contents.layer(r.created)
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "netclass-image"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: r.created}
	config.Config = v1.Config{Entrypoint: k.entrypoint, Labels: r.labels(k)}
	if k.entrypoint != nil {
		config.Config.Env = []string{"PATH=" + bin}
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	image = mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Annotations(image, r.labels(k)).(v1.Image), nil
}

// labels are what tools show of an image.
func (r *release) labels(k kind) map[string]string {
	return map[string]string{
		specs.AnnotationTitle: k.name, specs.AnnotationDescription: k.title, specs.AnnotationVersion: r.version,
		specs.AnnotationCreated: r.created.Format(time.RFC3339), specs.AnnotationLicenses: "Apache-2.0",
	}
}
