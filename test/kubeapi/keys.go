package kubeapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// writeKeys writes the server's certificate with the authority that signed it,
// and the key of service accounts' tokens.
func (s *Server) writeKeys() error {
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "netclass test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &authority.PublicKey, authority)
	if err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, authority)
	if err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	if err := s.writePEM("ca.crt", "CERTIFICATE", rootDER); err != nil {
		return err
	}
	if err := s.writePEM("tls.crt", "CERTIFICATE", leafDER); err != nil {
		return err
	}
	for name, k := range map[string]*ecdsa.PrivateKey{"tls.key": key, "sa.key": accounts} {
		der, err := x509.MarshalECPrivateKey(k)
		if err != nil {
			return fmt.Errorf("make keys: %w", err)
		}
		if err := s.writePEM(name, "EC PRIVATE KEY", der); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) writePEM(name, kind string, der []byte) error {
	if err := os.WriteFile(s.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	return nil
}
