package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// writeBOM writes a list of the modules in a binary, in the CycloneDX format. The list is read
// from the binary itself.
func writeBOM(name string, b build, bin binary) error {
	return create(name, func(w io.Writer) error {
		e := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON)
		e.SetPretty(true)
		return e.EncodeVersion(billOfMaterials(b, bin), cdx.SpecVersion1_6)
	})
}

func billOfMaterials(b build, bin binary) *cdx.BOM {
	sum := sha256.Sum256(bin.body)
	self := module(bin.info.Main.Path, b.version)
	self.Type = cdx.ComponentTypeApplication
	self.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	self.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}

	components := []cdx.Component{module("std", strings.TrimPrefix(bin.info.GoVersion, "go"))}
	for _, d := range bin.info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		c := module(d.Path, d.Version)
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: d.Sum}}
		components = append(components, c)
	}
	refs := make([]string, len(components))
	for i, c := range components {
		refs[i] = c.BOMRef
	}

	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewHash(sha256.New(), uuid.NameSpaceOID, sum[:], 5).URN()
	bom.Metadata = &cdx.Metadata{
		Timestamp: b.time.Format(time.RFC3339),
		Component: &self,
		Properties: &[]cdx.Property{
			{Name: "platform", Value: bin.platform.os + "/" + bin.platform.arch},
		},
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	return bom
}

// module returns the CycloneDX component for a Go module.
func module(path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: path, Version: version, PackageURL: purl}
}
