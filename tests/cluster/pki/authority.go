package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// lifetime: no test cluster is older than this, and a guest's clock may be a day behind.
const (
	lifetime = 365 * 24 * time.Hour
	skew     = 24 * time.Hour
)

// pair is a key and its certificate.
type pair struct {
	key         crypto.Signer
	certificate *x509.Certificate
}

// authority reads ca.crt and ca.key, or makes them.
func authority(directory string) (pair, error) {
	crt, keyFile := filepath.Join(directory, "ca.crt"), filepath.Join(directory, "ca.key")
	key, made, err := key(keyFile)
	if err != nil {
		return pair{}, err
	}
	if !made {
		certificates, err := certutil.CertsFromFile(crt)
		if err != nil {
			return pair{}, fmt.Errorf("%s has no certificate (%w): remove the key to make both again", keyFile, err)
		}
		return pair{key, certificates[0]}, nil
	}
	template := x509.Certificate{
		Subject:               pkix.Name{CommonName: "kubernetes"},
		KeyUsage:              x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	ca, err := pair{key: key}.sign(template, key)
	if err != nil {
		return pair{}, err
	}
	return ca, writeCertificate(crt, ca.certificate)
}

// sign makes a certificate of the template for the key. An authority without a certificate signs its own.
func (a pair) sign(template x509.Certificate, key crypto.Signer) (pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return pair{}, err
	}
	now := time.Now()
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-skew), now.Add(lifetime)
	issuer := a.certificate
	if issuer == nil {
		issuer = &template
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, issuer, key.Public(), a.key)
	if err != nil {
		return pair{}, err
	}
	certificate, err := x509.ParseCertificate(der)
	return pair{key, certificate}, err
}

// issue makes a new key and a certificate for it.
func (a pair) issue(template x509.Certificate) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	return a.sign(template, key)
}

// key reads the private key of this file, or makes it.
func key(file string) (key crypto.Signer, made bool, err error) {
	read, err := keyutil.PrivateKeyFromFile(file)
	if err == nil {
		return read.(crypto.Signer), false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("%s is no private key (%w): remove it to make a new one", file, err)
	}
	if key, err = newKey(); err != nil {
		return nil, false, err
	}
	return key, true, writeKey(file, key)
}

func newKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func writeKey(file string, key crypto.Signer) error {
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return keyutil.WriteKey(file, pem)
}

func writeCertificate(file string, certificate *x509.Certificate) error {
	pem, err := certutil.EncodeCertificates(certificate)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem, 0o644)
}
